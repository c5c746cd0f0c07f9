//! Zones that are signed here, through the engine: keys and their faults, pools, rollovers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whered_dns::{DenialMethod, KeyAlgorithm, KeyId, Name, RolloverStep};
use whered_engine::{
    Engine, EngineOptions, KeyDirectory, PoolSource, Setup, SignSource, SigningTask, Site,
    ZoneSource,
};

const ZONE: &str = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
const TOKEN: &str = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("zone"), ZONE).unwrap();
        Folder(folder)
    }

    fn keys(&self) -> KeyDirectory {
        KeyDirectory::new(self.0.join("keys"), name())
    }

    fn create(&self) -> whered_dns::SigningKey {
        self.keys().create(KeyAlgorithm::EcdsaP256Sha256, None).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name() -> Name {
    "example.com".parse().unwrap()
}

fn setup(folder: &Path) -> Setup {
    let zone = ZoneSource {
        name: "example.com".into(),
        path: folder.join("zone"),
        reversed: None,
        dnssec: whered_dns::Dnssec::Serve,
        sign: Some(SignSource {
            keys: folder.join("keys"),
            serial: None,
            denial: DenialMethod::default(),
        }),
        is_secondary: false,
        member: None,
        follows_file: true,
    };
    let site = Site::new("one", None, vec!["198.51.100.1".parse().unwrap()]);
    let pool = PoolSource::new("www", vec!["www.example.com".into()], vec![site]);
    Setup { zones: vec![zone], pools: vec![pool], ..Setup::default() }
}

fn open(folder: &Folder) -> Result<Arc<Engine>, String> {
    let options = EngineOptions { setup: setup(&folder.0), ..EngineOptions::default() };
    Engine::open(options).map(|(engine, _)| engine).map_err(|error| error.to_string())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_zone_is_signed_with_its_pools_and_takes_sites_and_challenges() {
    let folder = Folder::new("signing");
    folder.create();
    let engine = open(&folder).unwrap();
    let is_signed = || engine.generation().zones().zone(&name()).unwrap().is_signed_here();
    assert!(is_signed());
    assert!(engine.set_challenge("www.example.com", TOKEN, u64::MAX).unwrap().value);
    engine.reload_zone("example.com").unwrap();
    engine.reload(setup(&folder.0)).unwrap();
    assert!(is_signed());
    assert_eq!(engine.signing_tasks(), []);
    // A command may add a site of the other family.
    let site = Site::new("two", None, vec!["2001:db8::2".parse().unwrap()]);
    assert!(engine.put_site("www", site).unwrap().value);
    // Nine days on, the first signatures end in less than five.
    let later = engine.now_millis() / 1000 + 10 * 86_400;
    let expected = SigningTask::Sign { zone: "example.com".to_owned() };
    assert_eq!(engine.signing_tasks_at(later), [expected]);
}

#[test]
fn wrong_keys_are_refused_in_one_line_with_their_file() {
    let folder = Folder::new("signing-wrong");
    let keys = folder.0.join("keys");
    let refused = |expected: &str| {
        let error = open(&folder).err().unwrap();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        assert!(error.contains(&keys.display().to_string()), "{error}");
        assert!(!error.contains("PrivateKey: "), "{error}");
    };
    refused("No such file");
    fs::create_dir(&keys).unwrap();
    set_mode(&keys, 0o755);
    refused("found the mode 755");
    set_mode(&keys, 0o700);
    refused("whered zone key create example.com --keys");
    let key = folder.create();
    let private = keys.join(format!("{}.private", key.file_stem(&name())));
    assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(open(&folder).is_ok());
    set_mode(&private, 0o640);
    refused("found the mode 640");
    set_mode(&private, 0o600);
    let public = private.with_extension("key");
    let text = fs::read_to_string(&public).unwrap();
    fs::write(&public, text.replace("example.com. IN", "example.org. IN")).unwrap();
    refused("a key of example.org.");
    fs::write(&public, &text).unwrap();
    let secret = fs::read_to_string(&private).unwrap();
    fs::write(&private, "rubbish").unwrap();
    refused("no private key");
    fs::remove_file(&private).unwrap();
    refused("No such file");
    fs::write(&private, secret).unwrap();
    set_mode(&private, 0o600);
    let text_of_private = fs::read_to_string(&private).unwrap();
    fs::write(&private, format!("{text_of_private}Delete: 20200101000000\n")).unwrap();
    refused("which has expired");
    fs::write(&private, text_of_private).unwrap();
    let states = folder.keys().states_path();
    fs::write(&states, "step over\n").unwrap();
    set_mode(&states, 0o600);
    refused("keystates:1: found 'step over'");
    fs::write(&states, "old 13 1\nnew 13 2\nstep sign\n").unwrap();
    refused("a rollover without its key 13 1");
    fs::write(&states, format!("retired {}\n", KeyId::of(&key))).unwrap();
    refused("no key that is in use");
    fs::remove_file(&states).unwrap();
    let other = keys.join("Kexample.com.+013+00001.key");
    fs::rename(&public, &other).unwrap();
    fs::rename(&private, other.with_extension("private")).unwrap();
    refused("a key whose file is named");
}

#[test]
fn a_rollover_goes_on_as_it_is_served_and_keeps_its_states() {
    let folder = Folder::new("signing-rollover");
    let old = folder.create();
    let engine = open(&folder).unwrap();
    let new = folder.keys().create(old.algorithm(), Some(KeyId::of(&old))).unwrap();
    let step = || folder.keys().read_states().unwrap().rollover.map(|at| (at.step, at.times));
    assert_eq!(step(), Some((RolloverStep::Publish, None)));
    let now = engine.now_millis() / 1000;
    let zone = "example.com".to_owned();
    let sign = || SigningTask::Sign { zone: zone.clone() };
    let went_on = |step| SigningTask::Rollover { zone: zone.clone(), step };
    // Nobody serves it yet, so that no wait begins.
    assert_eq!(engine.signing_tasks_at(now), [sign()]);
    assert_eq!(step().unwrap().1, None);
    engine.reload_zone(&zone).unwrap();
    assert_eq!(engine.signing_tasks_at(now), [went_on(Some("publish"))]);
    let until = step().unwrap().1.unwrap().until;
    assert_eq!(until, now + 3600 + 3600, "the TTL of DNSKEY, and an hour");
    assert_eq!(engine.signing_tasks_at(until - 1), []);
    assert_eq!(engine.signing_tasks_at(until), [went_on(Some("sign")), sign()]);
    engine.reload_zone(&zone).unwrap();
    assert_eq!(engine.signing_tasks_at(until), [went_on(Some("sign"))]);
    let mut states = folder.keys().read_states().unwrap();
    states.parent_has_new(until, 86_400).unwrap();
    folder.keys().write_states(&states).unwrap();
    assert_eq!(engine.signing_tasks_at(until), [], "the zone stays as it is");
    let end = step().unwrap().1.unwrap().until;
    assert_eq!(end, until + 86_400 + 3600);
    assert_eq!(engine.signing_tasks_at(end), [went_on(None), sign()]);
    engine.reload_zone(&zone).unwrap();
    let states = folder.keys().read_states().unwrap();
    assert_eq!((states.rollover, &states.retired[..]), (None, &[KeyId::of(&old)][..]));
    let generation = engine.generation();
    let records = generation.zones().zone(&name()).unwrap().records();
    let keys: Vec<Vec<u8>> = records
        .filter(|record| record.record_type == whered_dns::RecordType::DNSKEY)
        .map(|record| record.data.to_vec())
        .collect();
    assert_eq!(keys, [new.dnskey().to_vec()]);
    let mode = fs::metadata(folder.keys().states_path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_serial_of_a_zone_that_others_get_rises_whenever_it_is_signed() {
    let folder = Folder::new("signing-serial");
    folder.create();
    let path = folder.0.join("data/zones/example.com.serial");
    let start = || {
        let mut setup = setup(&folder.0);
        setup.zones[0].sign.as_mut().unwrap().serial = Some(path.clone());
        let data_dir = Some(folder.0.join("data"));
        Engine::open(EngineOptions { setup, data_dir, ..EngineOptions::default() })
    };
    let serial = |engine: &Engine| engine.generation().zones().zone(&name()).unwrap().serial();
    let kept = || fs::read_to_string(&path).unwrap();
    let (engine, _) = start().unwrap();
    assert_eq!((serial(&engine), &*kept()), (2, "2\n"), "above that of the file");
    engine.reload_zone("example.com").unwrap();
    assert_eq!((serial(&engine), &*kept()), (3, "3\n"));
    let mut setup = setup(&folder.0);
    setup.zones[0].sign.as_mut().unwrap().serial = Some(path.clone());
    engine.reload(setup).unwrap();
    assert_eq!((serial(&engine), &*kept()), (4, "4\n"));
    engine.close().unwrap();
    drop(engine);
    let (engine, _) = start().unwrap();
    assert_eq!((serial(&engine), &*kept()), (5, "5\n"), "after a restart, too");
    fs::write(folder.0.join("zone"), ZONE.replace("hm 1 ", "hm 90 ")).unwrap();
    engine.reload_zone("example.com").unwrap();
    assert_eq!((serial(&engine), &*kept()), (90, "90\n"), "a newer file has its own");
    engine.close().unwrap();
    drop(engine);
    fs::write(&path, "many").unwrap();
    let error = start().err().unwrap().to_string();
    assert!(error.contains("found 'many'; allowed: the serial"), "{error}");
    // A check writes nothing.
    fs::write(&path, "7\n").unwrap();
    let mut setup = self::setup(&folder.0);
    setup.zones[0].sign.as_mut().unwrap().serial = Some(path.clone());
    Engine::open(EngineOptions { setup, ..EngineOptions::default() }).unwrap();
    assert_eq!(kept(), "7\n");
}
