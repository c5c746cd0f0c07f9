//! Disks that may be harmed: ext4 on a loop device, and a small tmpfs. Both want root.
//!
//! Not for what is done on them. They are unmounted and their devices given back with their values.
//! The power cut is `FS_IOC_SHUTDOWN`: the file system writes nothing any more, and what it had not
//! written is lost at the unmount. It goes only to a mount whose device is our own loop device.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What of the file system's own journal still reaches the disk at a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Its transactions so far, without the data: names and sizes that promise what is not there.
    KeepsMetadata = 1,
    /// Nothing.
    KeepsNothing = 2,
}

/// ext4 on a file of its own.
pub struct LoopDisk {
    device: PathBuf,
    /// Where it is mounted.
    pub mount: PathBuf,
    is_mounted: bool,
}

impl LoopDisk {
    /// Makes the file system in a folder and mounts it there.
    ///
    /// # Errors
    ///
    /// The reason why this cannot be done here.
    pub fn new(folder: &Path, size_bytes: u64) -> Result<LoopDisk, String> {
        let fault = |error: std::io::Error| format!("{}: {error}", folder.display());
        let (image, mount) = (folder.join("image"), folder.join("mount"));
        fs::create_dir_all(&mount).map_err(fault)?;
        File::create(&image).and_then(|file| file.set_len(size_bytes)).map_err(fault)?;
        command("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0", &text(&image)])?;
        let device = command("losetup", &["--find", "--show", &text(&image)])?;
        // From here on the device is given back with the value.
        let mut disk = LoopDisk { device: device.trim().into(), mount, is_mounted: false };
        disk.attach()?;
        Ok(disk)
    }

    fn attach(&mut self) -> Result<(), String> {
        command("mount", &[&text(&self.device), &text(&self.mount)])?;
        self.is_mounted = true;
        Ok(())
    }

    fn detach(&mut self) -> Result<(), String> {
        command("umount", &[&text(&self.mount)])?;
        self.is_mounted = false;
        Ok(())
    }

    /// Unmounts, and mounts again, as after a power cut.
    pub(super) fn mount_again(&mut self) -> Result<(), String> {
        self.detach()?;
        self.attach()
    }

    /// Writes everything out.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    pub fn sync(&self) -> Result<(), String> {
        command("sync", &["--file-system", &text(&self.mount)]).map(drop)
    }

    /// The bytes that the device was given to write so far, by its own count.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub fn written_bytes(&self) -> Result<u64, String> {
        const SECTOR_BYTES: u64 = 512;
        let name = self.device.file_name().unwrap_or_default();
        let path = Path::new("/sys/block").join(name).join("stat");
        let stat = fs::read_to_string(&path).unwrap_or_default();
        // The seventh number: sectors written.
        let sectors = stat.split_whitespace().nth(6).and_then(|text| text.parse::<u64>().ok());
        let sectors = sectors.ok_or_else(|| format!("{} does not tell", path.display()))?;
        Ok(sectors * SECTOR_BYTES)
    }

    /// Cuts the power.
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code, reason = "the standard library has no ioctl")]
    pub(super) fn cut_power(&self, cut: Cut) -> Result<(), String> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;
        const FS_IOC_SHUTDOWN: libc::Ioctl = libc::_IOR::<u32>(b'X' as u32, 125);
        let fault = |error: std::io::Error| format!("{}: {error}", self.mount.display());
        let folder = File::open(&self.mount).map_err(fault)?;
        let of_folder = folder.metadata().map_err(fault)?.dev();
        let of_device = fs::metadata(&self.device).map_err(fault)?.rdev();
        if !self.is_mounted || of_folder != of_device {
            return Err(format!("{} is not our own loop device", self.mount.display()));
        }
        let flags = cut as u32;
        // SAFETY: the request reads one u32 behind the pointer, which lives during the call; the
        // descriptor is open during it.
        let code = unsafe { libc::ioctl(folder.as_raw_fd(), FS_IOC_SHUTDOWN, &raw const flags) };
        if code == 0 { Ok(()) } else { Err(fault(std::io::Error::last_os_error())) }
    }

    /// Cuts the power.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn cut_power(&self, _: Cut) -> Result<(), String> {
        Err("this system has no FS_IOC_SHUTDOWN".to_owned())
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if self.is_mounted && self.detach().is_err() {
            // A process that was not ended yet has files there.
            let _ = command("umount", &["--lazy", &text(&self.mount)]);
        }
        let _ = command("losetup", &["--detach", &text(&self.device)]);
    }
}

/// A tmpfs of a few megabytes.
pub(super) struct SmallDisk {
    pub(super) mount: PathBuf,
}

impl SmallDisk {
    /// Mounts it.
    ///
    /// # Errors
    ///
    /// The reason why this cannot be done here.
    pub(super) fn new(folder: &Path, size_bytes: u64) -> Result<SmallDisk, String> {
        let mount = folder.join("small");
        fs::create_dir_all(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
        let size = format!("size={size_bytes}");
        command("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &text(&mount)])?;
        Ok(SmallDisk { mount })
    }

    /// Lets another file take everything but that number of bytes.
    pub(super) fn fill(&self, left_bytes: u64) -> Result<(), String> {
        let fault = |error: std::io::Error| format!("the ballast: {error}");
        let path = self.ballast();
        let mut file = File::create(&path).map_err(fault)?;
        let chunk = vec![0_u8; 64 << 10];
        // Until it is full, and then some of it is given back.
        let mut size_bytes = 0;
        while std::io::Write::write_all(&mut file, &chunk).is_ok() {
            size_bytes += chunk.len() as u64;
        }
        file.set_len(size_bytes.saturating_sub(left_bytes)).map_err(fault)
    }

    /// Takes that file away.
    pub(super) fn free(&self) -> Result<(), String> {
        fs::remove_file(self.ballast()).map_err(|error| format!("the ballast: {error}"))
    }

    fn ballast(&self) -> PathBuf {
        self.mount.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if command("umount", &[&text(&self.mount)]).is_err() {
            let _ = command("umount", &["--lazy", &text(&self.mount)]);
        }
    }
}

/// Runs a program to its end; gives its output.
pub(super) fn command(name: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(name).args(arguments).env("LC_ALL", "C").output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let line = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed");
    Err(format!("{name}: {}", line.trim()))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
