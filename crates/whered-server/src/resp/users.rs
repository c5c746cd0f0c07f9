//! Users: who may give which commands on which keys and channels.
//!
//! For: the rules of the configuration and of `AUTH`, `ACL` and `NOPERM`.
//! Not for: the connection that has logged in (`session`), the texts (`commands/acl`).
//!
//! ```text
//! User { name, password: SHA-256, rules ["+@read", "-keys"] ──> allowed: one bit a command,
//!        keys ["geo:*"], channels ["*"], sets ["b*"], ... }
//! ```
//!
//! Invariants: passwords are kept as SHA-256 only, and compared in a time that does not depend on
//! where they differ; an unknown user costs the same time as a wrong password.
//! At the same time: a user never changes; `CONFIG SET requirepass` and a reload put another one in
//! its place, and connections that are logged in stay so, with the rights that they had.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use whered_engine::sync;

use whered_engine::glob;

/// The SHA-256 of a password.
pub type PasswordHash = [u8; 32];

/// A kind of things that commands name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NameKind {
    /// Keys of the numbered databases.
    Key,
    /// Databases of addresses.
    Database,
    /// Prefix sets.
    Set,
    /// Rulesets.
    Ruleset,
    /// Pools with their sites.
    Pool,
    /// Zones of DNS.
    Zone,
    /// Feeds.
    Feed,
    /// Tables of feeds.
    Table,
}

impl NameKind {
    /// All kinds, keys first.
    pub const ALL: [NameKind; 8] = [
        NameKind::Key,
        NameKind::Database,
        NameKind::Set,
        NameKind::Ruleset,
        NameKind::Pool,
        NameKind::Zone,
        NameKind::Feed,
        NameKind::Table,
    ];

    /// The kind's list of patterns in `[[resp.user]]`.
    pub fn list(self) -> &'static str {
        match self {
            NameKind::Key => "keys",
            NameKind::Database => "databases",
            NameKind::Set => "sets",
            NameKind::Ruleset => "rules",
            NameKind::Pool => "pools",
            NameKind::Zone => "zones",
            NameKind::Feed => "feeds",
            NameKind::Table => "tables",
        }
    }

    /// This kind as a list of one.
    pub(crate) fn alone(self) -> &'static [NameKind] {
        let index = NameKind::ALL.iter().position(|kind| *kind == self).unwrap_or_default();
        &NameKind::ALL[index..=index]
    }
}

/// One user, as the configuration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserOptions {
    /// What `AUTH` calls it.
    pub name: String,
    /// What its password must hash to; `None`: every password is right.
    pub password: Option<PasswordHash>,
    /// Rules in order, the last one that fits counts:
    /// `+name -name +name|sub +@category -@category`. At first nothing is allowed.
    pub commands: Vec<String>,
    /// Patterns of keys; none: no key at all.
    pub keys: Vec<String>,
    /// Patterns of channels.
    pub channels: Vec<String>,
    /// Patterns of the other kinds, for each kind that has a list. Without any list a user of all
    /// keys (`*`) has everything of every kind; otherwise what is not listed is nothing.
    pub names: BTreeMap<NameKind, Vec<String>>,
}

impl UserOptions {
    /// The patterns of a kind.
    pub fn patterns(&self, kind: NameKind) -> &[String] {
        let has_all = self.names.is_empty() && self.keys.iter().any(|pattern| pattern == "*");
        if kind == NameKind::Key || has_all {
            return &self.keys;
        }
        self.names.get(&kind).map_or(&[], Vec::as_slice)
    }
}

/// One user.
pub(crate) struct User {
    pub(crate) name: Arc<str>,
    pub(crate) password: Option<PasswordHash>,
    pub(crate) rules: Vec<String>,
    pub(crate) keys: Vec<String>,
    pub(crate) channels: Vec<String>,
    /// Patterns of the kinds beside keys that have a list.
    pub(crate) names: BTreeMap<NameKind, Vec<String>>,
    /// The patterns that hold, by kind.
    patterns: [Vec<String>; NameKind::ALL.len()],
    /// By command number; `None`: everything is allowed, on every key and channel.
    allowed: Option<Vec<bool>>,
}

impl User {
    /// The user that every connection is at first.
    pub(crate) fn default_user(password: Option<PasswordHash>) -> User {
        User {
            name: Arc::from(DEFAULT),
            password,
            rules: vec!["+@all".to_owned()],
            keys: vec!["*".to_owned()],
            channels: vec!["*".to_owned()],
            names: BTreeMap::new(),
            patterns: Default::default(),
            allowed: None,
        }
    }

    /// A user of the configuration; `allowed` says by command number what its rules allow.
    pub(crate) fn new(options: &UserOptions, allowed: Vec<bool>) -> User {
        User {
            name: Arc::from(options.name.as_str()),
            password: options.password,
            rules: options.commands.clone(),
            keys: options.keys.clone(),
            channels: options.channels.clone(),
            names: options.names.clone(),
            patterns: NameKind::ALL.map(|kind| options.patterns(kind).to_vec()),
            allowed: Some(allowed),
        }
    }

    /// Whether there is nothing that it may not do.
    pub(crate) fn may_all(&self) -> bool {
        self.allowed.is_none()
    }

    /// Whether it may give the command of that number.
    pub(crate) fn may_run(&self, number: usize) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed[number])
    }

    /// Whether it may touch a key.
    pub(crate) fn may_touch(&self, key: &[u8]) -> bool {
        self.may_all() || self.keys.iter().any(|pattern| glob::matches(pattern.as_bytes(), key))
    }

    /// Whether it may touch what has a name.
    pub(crate) fn may_name(&self, kind: NameKind, name: &[u8]) -> bool {
        let fits = |pattern: &String| glob::matches(pattern.as_bytes(), name);
        self.may_all() || self.patterns[kind as usize].iter().any(fits)
    }

    /// Whether it may touch everything of a kind.
    pub(crate) fn may_name_all(&self, kind: NameKind) -> bool {
        self.may_all() || self.patterns[kind as usize].iter().any(|pattern| pattern == "*")
    }

    /// Whether it may use a channel; a pattern of channels must be one of its own to the letter.
    pub(crate) fn may_use_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.may_all()
            || self.channels.iter().any(|allowed| {
                let allowed = allowed.as_bytes();
                allowed == b"*"
                    || if is_pattern { allowed == channel } else { glob::matches(allowed, channel) }
            })
    }
}

/// The name of the user that needs no other name.
pub(crate) const DEFAULT: &str = "default";

/// All users of the listener.
pub(crate) struct Users {
    /// The default user, then the others in the configuration's order.
    users: RwLock<Vec<Arc<User>>>,
}

impl Users {
    /// The default user and those of the configuration.
    pub(crate) fn new(default: User, others: impl Iterator<Item = User>) -> Users {
        let users = std::iter::once(default).chain(others).map(Arc::new).collect();
        Users { users: RwLock::new(users) }
    }

    /// The user that a connection is before it says who it is.
    pub(crate) fn default_user(&self) -> Arc<User> {
        Arc::clone(&self.read()[0])
    }

    /// The users, the default one first.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        self.read().clone()
    }

    /// The user of a name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.read().iter().find(|user| user.name.as_bytes() == name).cloned()
    }

    /// The user of that name, if the password is right.
    pub(crate) fn login(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let given = hash(password);
        let user = self.find(name);
        // Without a user something is compared all the same, so that both take the same time.
        let wanted = user.as_ref().map_or(Some([0; 32]), |user| user.password);
        let right = wanted.is_none_or(|wanted| equal_in_constant_time(&wanted, &given));
        user.filter(|_| right)
    }

    /// Puts all users of a new configuration in the place of those before.
    pub(crate) fn exchange(&self, others: Users) {
        *sync::write(&self.users) = sync::unpoisoned(others.users.into_inner());
    }

    /// Gives the default user another password, or none.
    pub(crate) fn set_default_password(&self, password: Option<PasswordHash>) {
        let mut users = sync::write(&self.users);
        users[0] = Arc::new(User::default_user(password));
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<User>>> {
        sync::read(&self.users)
    }
}

/// What is kept of a password.
pub fn hash(password: &[u8]) -> PasswordHash {
    let digest = ring::digest::digest(&ring::digest::SHA256, password);
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    hash
}

/// A hash as 64 hexadecimal digits.
pub(crate) fn hexadecimal(hash: &PasswordHash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares in a time that tells nothing about where the two differ.
fn equal_in_constant_time(one: &PasswordHash, other: &PasswordHash) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_kept_as_its_sha_256() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hexadecimal(&hash(b"abc")), known);
    }

    #[test]
    fn all_keys_and_no_other_list_are_all_kinds_and_else_only_what_is_listed() {
        let user = |keys: &[&str], lists: &[(NameKind, &str)]| {
            let list = |(kind, pattern): &(NameKind, &str)| (*kind, vec![(*pattern).to_owned()]);
            let options = UserOptions {
                name: "ann".to_owned(),
                password: None,
                commands: Vec::new(),
                keys: keys.iter().map(|&key| key.to_owned()).collect(),
                channels: Vec::new(),
                names: lists.iter().map(list).collect(),
            };
            User::new(&options, Vec::new())
        };
        let all = user(&["*"], &[]);
        assert!(NameKind::ALL.iter().all(|kind| all.may_name(*kind, b"x")));
        let some = user(&["b:*"], &[]);
        assert!(!NameKind::ALL.iter().any(|kind| some.may_name(*kind, b"x")));
        assert!(some.may_name(NameKind::Key, b"b:1"));
        let listed = user(&["*"], &[(NameKind::Set, "b*")]);
        assert!(listed.may_name(NameKind::Key, b"x") && listed.may_name(NameKind::Set, b"bad"));
        assert!(!listed.may_name(NameKind::Set, b"x") && !listed.may_name(NameKind::Table, b"b"));
        assert!(!listed.may_name_all(NameKind::Set) && listed.may_name_all(NameKind::Key));
    }

    #[test]
    fn only_the_right_password_of_a_known_user_logs_in() {
        let options = UserOptions {
            name: "ann".to_owned(),
            password: Some(hash(b"secret")),
            commands: Vec::new(),
            keys: vec!["a*".to_owned()],
            channels: vec!["news.*".to_owned()],
            names: BTreeMap::new(),
        };
        let ann = User::new(&options, vec![false, true]);
        let users = Users::new(User::default_user(None), std::iter::once(ann));
        assert!(users.login(b"ann", b"secret").is_some());
        assert!(users.login(b"ann", b"secre").is_none());
        assert!(users.login(b"bob", b"secret").is_none());
        assert!(users.login(b"bob", &[0; 32]).is_none());
        assert!(users.login(b"default", b"anything").is_some());
        let ann = users.find(b"ann").unwrap();
        assert!(!ann.may_run(0) && ann.may_run(1));
        assert!(ann.may_touch(b"abc") && !ann.may_touch(b"b"));
        assert!(ann.may_use_channel(b"news.de", false) && !ann.may_use_channel(b"old", false));
        assert!(ann.may_use_channel(b"news.*", true) && !ann.may_use_channel(b"*", true));
        users.set_default_password(Some(hash(b"x")));
        assert!(users.login(b"default", b"anything").is_none());
    }
}
