//! Pages of lists of names: the parameters `cursor` and `count`, and `next` of the answer.
//!
//! Without `count` a page has everything. `next` is the last name of a page, and null when nothing
//! is behind it. A sorted list goes on behind a name that has gone meanwhile.

use std::ops::Range;

use super::error::HttpError;
use super::query::Parameters;

/// The most items of a page whose size is asked for.
const COUNT_MAX: usize = 10_000;

/// The parameters of a list.
pub(super) const PARAMETERS: [&str; 2] = ["cursor", "count"];

/// Which part of a list an answer has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The positions of its items.
    pub(super) items: Range<usize>,
    /// The cursor of the next page.
    pub(super) next: Option<String>,
}

impl Page {
    /// The page of a list that a request asks for.
    ///
    /// # Errors
    /// A wrong count, or a cursor that is not in a list without an order: 400.
    pub(super) fn of<N: AsRef<str>>(
        parameters: &Parameters,
        names: &[N],
    ) -> Result<Page, HttpError> {
        let count = parameters.count("count", COUNT_MAX)?;
        let start = match parameters.text("cursor") {
            None => 0,
            Some(cursor) => behind(names, cursor).ok_or_else(|| {
                let allowed = "the 'next' of the page before";
                HttpError::bad_request(
                    "cursor",
                    format!("'cursor' is '{cursor}'; allowed: {allowed}"),
                )
            })?,
        };
        let end = count.map_or(names.len(), |count| names.len().min(start + count));
        let has_more = end < names.len();
        let next = has_more.then(|| names[end - 1].as_ref().to_owned());
        Ok(Page { items: start..end, next })
    }
}

fn behind<N: AsRef<str>>(names: &[N], cursor: &str) -> Option<usize> {
    if names.is_sorted_by_key(AsRef::as_ref) {
        return Some(names.partition_point(|name| name.as_ref() <= cursor));
    }
    names.iter().position(|name| name.as_ref() == cursor).map(|position| position + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str, names: &[&str]) -> Option<Page> {
        let uri = format!("/?{query}").parse().expect("a URI");
        let parameters = Parameters::read(&uri, &PARAMETERS).ok()?;
        Page::of(&parameters, names).ok()
    }

    #[test]
    fn pages_of_a_list_have_each_item_once() {
        for names in [&["a", "b", "c", "d", "e"][..], &["e", "a", "d"], &["x"], &[]] {
            for count in 1..=6 {
                let (mut seen, mut query) = (Vec::new(), format!("count={count}"));
                loop {
                    let page = page(&query, names).expect("a page");
                    seen.extend_from_slice(&names[page.items.clone()]);
                    assert!(page.items.len() <= count);
                    let Some(next) = page.next else { break };
                    query = format!("count={count}&cursor={next}");
                }
                assert_eq!(seen, names);
            }
            assert_eq!(page("", names), Some(Page { items: 0..names.len(), next: None }));
        }
    }

    #[test]
    fn a_sorted_list_goes_on_behind_a_name_that_has_gone() {
        assert_eq!(page("cursor=b", &["a", "c", "d"]).map(|page| page.items), Some(1..3));
        assert_eq!(page("cursor=z", &["a", "c"]).map(|page| page.items), Some(2..2));
        assert_eq!(page("cursor=b", &["c", "a"]), None);
        assert_eq!(page("count=0", &["a"]), None);
    }
}
