//! Tries the container file: an image is made on a fresh system, and a program in it allocates from the library.

use std::path::Path;
use std::process::Command;

use super::said;

const BASE: &str = "commensal-base";
const IMAGE: &str = "commensal-tried";
/// Ends well in an image whose programs are preloaded, and which has the command.
const USE: &str = "grep -q libcommensal.so.0 /proc/self/maps && commensal --version";

/// Makes the image on the system in a folder, by `buildah`, which needs no daemon.
pub fn try_on(root: &Path, system: &Path) -> Result<(), String> {
    let storage = root.join("target/package/containers");
    let buildah = |words: &[&str]| {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(storage.join("images")).arg("--runroot").arg(storage.join("run"));
        command.args(["--storage-driver", "vfs"]).args(words).current_dir(root);
        said(&mut command).map(|text| text.trim().to_owned())
    };
    let base = buildah(&["from", "scratch"])?;
    buildah(&["add", "--quiet", &base, &system.display().to_string(), "/"])?;
    buildah(&["commit", "--quiet", &base, BASE])?;
    let file = "packaging/Containerfile";
    let from = format!("BASE=localhost/{BASE}");
    buildah(&["bud", "--quiet", "--isolation", "chroot", "--build-arg", &from, "--file", file, "--tag", IMAGE, "."])?;
    let container = buildah(&["from", &format!("localhost/{IMAGE}")])?;
    let said = buildah(&["run", "--isolation", "chroot", &container, "--", "sh", "-c", USE])?;
    println!("package: in a container: {said}");
    buildah(&["rm", "--all"])?;
    buildah(&["rmi", "--all", "--force"]).map(drop)
}
