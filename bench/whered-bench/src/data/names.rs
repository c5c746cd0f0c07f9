//! Made-up names in the languages and scripts of GeoLite2-City.
//!
//! Not real places: what matters is how many bytes names have, how many scripts they use, and how
//! many of them are shared. The same stream gives the same name.

use crate::Random;
use whered_mmdb::Value;

/// The languages of the names, in the order in which files state them.
pub(super) const LANGUAGES: [&str; 8] = ["de", "en", "es", "fr", "ja", "pt-BR", "ru", "zh-CN"];

const LATIN: [&str; 32] = [
    "al", "ba", "ber", "bo", "cor", "da", "del", "dor", "el", "fen", "ga", "gor", "ha", "in", "ka",
    "lan", "le", "lo", "mar", "mi", "mon", "na", "nor", "o", "pa", "ra", "ri", "sa", "sel", "ta",
    "ti", "va",
];
const LATIN_ENDS: [&str; 12] = [
    "berg", "bury", "dale", "field", "ford", "grad", "ham", "mouth", "pur", "stad", "ton", "ville",
];
const LATIN_ACCENTS: [&str; 6] = ["é", "ã", "ö", "ü", "ó", "ñ"];
const CYRILLIC: [&str; 16] = [
    "ал", "бе", "вор", "го", "дон", "ка", "ле", "мос", "на", "ор", "пе", "ро", "са", "тор", "ул",
    "яр",
];
const KANA: [&str; 16] = [
    "ア", "カ", "サ", "タ", "ナ", "ハ", "マ", "ヤ", "ラ", "ワ", "リ", "ト", "ン", "ル", "ス", "ド",
];
const HAN: [&str; 16] = [
    "山", "川", "海", "城", "京", "东", "西", "南", "北", "中", "新", "安", "平", "江", "州", "林",
];

/// A place's English name.
pub(super) fn english(random: &mut Random) -> String {
    let mut name = word(&LATIN, 1 + random.below(3), random);
    name.push_str(random.pick::<&str>(&LATIN_ENDS));
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}

/// A name in all languages, or only in those that small places have.
pub(super) fn names(is_well_known: bool, random: &mut Random) -> Value {
    let english = english(random);
    let all: Vec<(String, Value)> = LANGUAGES
        .iter()
        .map(|&language| (language, translated(language, &english, random)))
        .filter(|&(language, _)| is_well_known || matches!(language, "de" | "en" | "fr"))
        .map(|(language, name)| (language.to_owned(), Value::String(name)))
        .collect();
    Value::Map(all)
}

/// A name in English alone, which most places have.
pub(super) fn english_names(random: &mut Random) -> Value {
    Value::Map(vec![("en".to_owned(), Value::String(english(random)))])
}

/// Languages in Latin script mostly keep the name; the others write it anew.
fn translated(language: &str, english: &str, random: &mut Random) -> String {
    match language {
        "en" => english.to_owned(),
        "ja" => word(&KANA, 3 + random.below(4), random),
        "ru" => word(&CYRILLIC, 2 + random.below(3), random),
        "zh-CN" => word(&HAN, 2 + random.below(3), random),
        _ if random.chance(0.7) => english.to_owned(),
        _ => format!("{english}{}", random.pick(&LATIN_ACCENTS)),
    }
}

fn word(syllables: &[&str], count: u64, random: &mut Random) -> String {
    (0..count).map(|_| *random.pick(syllables)).collect()
}
