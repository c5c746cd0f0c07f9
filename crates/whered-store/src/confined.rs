//! A directory that names from outside cannot lead out of.
//!
//! For: files and folders that clients name in commands. Not for: paths of the configuration, which
//! go anywhere.
//!
//! ```text
//! name ─ links and `..` resolved ─> path ─ below the root? ─> opened step by step from the root's own
//!                                              └ no: Outside      descriptor, through no link
//! ```
//!
//! Invariant: what is opened is what was checked. A folder that is exchanged for a link after the
//! check makes the opening fail.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// An open directory, and where it is.
#[derive(Debug)]
pub struct Confined {
    /// Without links.
    root: PathBuf,
    folder: File,
}

/// Why a name is not opened.
#[derive(Debug)]
pub enum ConfinedError {
    /// It leads out of the directory, or to the directory itself.
    Outside,
    /// The error of the system.
    Io(io::Error),
}

impl From<io::Error> for ConfinedError {
    fn from(error: io::Error) -> ConfinedError {
        ConfinedError::Io(error)
    }
}

impl Confined {
    /// Opens the directory, which must be there.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(root: &Path) -> io::Result<Confined> {
        let root = root.canonicalize()?;
        let folder = open_folder(&root)?;
        Ok(Confined { root, folder })
    }

    /// Opens a file for reading; a pipe is not waited for.
    ///
    /// # Errors
    /// The name leads out, or what the system reports.
    pub fn open_file(&self, named: &Path) -> Result<File, ConfinedError> {
        let path = self.resolve(named)?;
        let mut folder = self.folder.try_clone()?;
        for part in path.parent().into_iter().flat_map(Path::components) {
            folder = open_folder(&within(&folder, part))?;
        }
        let last = path.components().next_back().ok_or(ConfinedError::Outside)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        Ok(options.open(within(&folder, last))?)
    }

    /// Opens a folder; it and those above it are made where they are not there yet, for this user
    /// alone.
    ///
    /// # Errors
    /// As [`Confined::open_file`].
    pub fn open_or_make_folder(&self, named: &Path) -> Result<File, ConfinedError> {
        let path = self.resolve(named)?;
        let mut folder = self.folder.try_clone()?;
        for part in path.components() {
            let next = within(&folder, part);
            match DirBuilder::new().mode(0o700).create(&next) {
                // A new name is durable before anything is kept under it.
                Ok(()) => folder.sync_all()?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
            folder = open_folder(&next)?;
        }
        Ok(folder)
    }

    /// The path below the root that a name means, without links and `..`.
    fn resolve(&self, named: &Path) -> Result<PathBuf, ConfinedError> {
        let full = self.root.join(named);
        for above in full.ancestors() {
            let known = match above.canonicalize() {
                Ok(known) => known,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            // What is not there yet cannot be resolved, and must lead downwards only.
            let rest = full.strip_prefix(above).map_err(|_| ConfinedError::Outside)?;
            if !rest.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(ConfinedError::Outside);
            }
            let path = known.join(rest);
            let below = path.strip_prefix(&self.root).map_err(|_| ConfinedError::Outside)?;
            let is_root = below.as_os_str().is_empty();
            return if is_root { Err(ConfinedError::Outside) } else { Ok(below.to_owned()) };
        }
        Err(ConfinedError::Outside)
    }
}

/// A path that goes through an open folder, whatever stands at its name by now.
pub fn path_of(folder: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string())
}

fn within(folder: &File, part: Component<'_>) -> PathBuf {
    path_of(folder).join(part)
}

fn open_folder(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// Makes a directory for this user alone, unless it is there.
///
/// # Errors
/// The error of the system.
pub fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => match path.parent() {
            Some(parent) => fs::File::open(parent)?.sync_all(),
            None => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// `root` and `outside` beside each other, with links between them.
    fn folder(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        for made in ["root/sub", "outside"] {
            fs::create_dir_all(path.join(made)).expect("it can be made");
        }
        fs::write(path.join("root/sub/file"), "in").expect("it can be written");
        fs::write(path.join("outside/file"), "out").expect("it can be written");
        symlink(path.join("outside"), path.join("root/out")).expect("a link");
        symlink("../outside/file", path.join("root/out-file")).expect("a link");
        symlink("sub", path.join("root/own")).expect("a link");
        symlink(path.join("nowhere"), path.join("root/dangling")).expect("a link");
        symlink(path.join("root"), path.join("root-link")).expect("a link");
        Folder(path)
    }

    #[test]
    fn names_open_what_is_below_the_root_and_nothing_else() {
        let folder = folder("confined-files");
        let path = |name: &str| folder.0.join(name);
        for root in ["root", "root-link", "outside/../root"] {
            let confined = Confined::open(&path(root)).expect("it is there");
            let inside = [
                PathBuf::from("sub/file"),
                PathBuf::from("own/file"),
                PathBuf::from("sub/../sub/./file"),
                path("root/sub/file"),
                path("root-link/own/file"),
            ];
            for name in inside {
                let mut text = String::new();
                let file = confined.open_file(&name);
                file.expect("inside").read_to_string(&mut text).expect("text");
                assert_eq!(text, "in", "{}", name.display());
            }
            let outside = [
                PathBuf::from("../outside/file"),
                PathBuf::from("out/file"),
                PathBuf::from("out-file"),
                PathBuf::from("sub/../../outside/file"),
                PathBuf::from("nothing/../../outside/file"),
                PathBuf::from(""),
                PathBuf::from("."),
                path("outside/file"),
                PathBuf::from("/etc/passwd"),
            ];
            for name in outside {
                let opened = confined.open_file(&name);
                assert!(matches!(opened, Err(ConfinedError::Outside)), "{}", name.display());
            }
            assert!(matches!(confined.open_file(Path::new("none")), Err(ConfinedError::Io(_))));
        }
    }

    #[test]
    fn folders_are_made_below_the_root_only() {
        let folder = folder("confined-folders");
        let path = |name: &str| folder.0.join(name);
        let confined = Confined::open(&path("root")).expect("it is there");
        let made = confined.open_or_make_folder(Path::new("a/b")).expect("inside");
        fs::write(path_of(&made).join("file"), "x").expect("it can be written");
        assert_eq!(fs::read(path("root/a/b/file")).expect("it is there"), b"x");
        let mode = fs::metadata(path("root/a")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
        assert!(confined.open_or_make_folder(&path("root-link/own/new")).is_ok());
        assert!(path("root/sub/new").is_dir());
        for name in ["../new", "out/new", "dangling", "dangling/new", "x/../../new", ".", "/tmp/x"]
        {
            assert!(confined.open_or_make_folder(Path::new(name)).is_err(), "{name}");
        }
        assert!(!path("new").exists() && !path("outside/new").exists());
        assert!(!path("nowhere").exists());
    }

    #[test]
    fn a_folder_that_becomes_a_link_after_the_check_is_not_followed() {
        let folder = folder("confined-race");
        let path = |name: &str| folder.0.join(name);
        let confined = Confined::open(&path("root")).expect("it is there");
        let resolved = confined.resolve(Path::new("sub/file")).expect("inside");
        fs::rename(path("root/sub"), path("root/moved")).expect("it can be renamed");
        symlink(path("outside"), path("root/sub")).expect("a link");
        // As if the check had been just before: each step is opened without following links.
        let step = within(&confined.folder, resolved.components().next().expect("a part"));
        assert!(open_folder(&step).is_err());
    }
}
