//! Tries the Debian packages in fresh systems: they install, work, and go without leaving a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{container, said};
use crate::library::succeeds;

const MIRROR: &str = "http://deb.debian.org/debian";

/// What a user does with them, in a shell of the fresh system. Each line must end well.
const USE: &str = r##"
commensal --version
commensal run -- sh -c 'echo it runs'
commensal run -- grep -q libcommensal.so /proc/self/maps
commensal doctor
LD_PRELOAD=libcommensal.so.0 grep -q 'libcommensal.so.0' /proc/self/maps
ldconfig -p | grep -q 'libcommensal.so.0 '
test -s /usr/share/man/man1/commensal.1.gz && test -s /usr/share/man/man1/commensal-run.1.gz
man commensal-run > /dev/null
bash -n /usr/share/bash-completion/completions/commensal
systemd-analyze verify /usr/lib/systemd/system/commensal-exporter.service
commensal exporter --listen 127.0.0.1:29464 &
for try in $(seq 100); do if exec 3<>/dev/tcp/127.0.0.1/29464; then break; fi; sleep 0.1; done 2> /dev/null
printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && grep -q '^commensal_processes ' <&3
kill %1
cc -Wall -Wextra -Werror /usr/share/doc/commensal/examples/counter.c $(pkg-config --cflags --libs commensal) -o /tmp/counter
/tmp/counter
cc /usr/share/doc/commensal/examples/counter.c -I/usr/include $(pkg-config --variable=libdir commensal)/libcommensal.a -lpthread -ldl -o /tmp/static
/tmp/static
printf '#include <commensal.h>\n#include <vector>\nint main() { return std::vector<int>(3).size() - 3; }\n' > /tmp/c.cc
c++ -Wall -Wextra -Werror /tmp/c.cc $(pkg-config --cflags --libs commensal) -o /tmp/c && /tmp/c
rm /tmp/counter /tmp/static /tmp/c /tmp/c.cc
"##;
/// Programs that this needs.
const TOOLS: &str = "gcc g++ libc6-dev pkgconf grep man-db systemd";

/// Makes a fresh system of each suite, and tries the packages there. Needs root and `debootstrap`.
pub fn try_in(root: &Path, made: &[PathBuf], suites: &[String]) -> Result<(), String> {
    for suite in suites {
        let system = root.join("target/package/suites").join(suite);
        println!("package: a fresh {suite} in {}", system.display());
        let fresh = Fresh::make(&system, suite)?;
        let outcome = fresh.try_packages(made);
        outcome.map_err(|why| format!("{suite}: {why}"))?;
        println!("package: {suite}: installed, used, and removed without a trace");
        container::try_on(root, &system).map_err(|why| format!("a container on {suite}: {why}"))?;
    }
    Ok(())
}

/// A system below a folder. It goes at the end.
pub struct Fresh<'a>(&'a Path);

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0);
    }
}

impl<'a> Fresh<'a> {
    /// Makes one of a suite of Debian, with the packages that each system has.
    pub fn make(system: &'a Path, suite: &str) -> Result<Self, String> {
        let _ = fs::remove_dir_all(system);
        fs::create_dir_all(system).map_err(|error| format!("{}: {error}", system.display()))?;
        let made = Fresh(system);
        said(Command::new("debootstrap").args(["--variant=minbase", suite]).arg(system).arg(MIRROR))?;
        // A mirror that is some days behind has all packages, and this system is not kept.
        let stale = system.join("etc/apt/apt.conf.d/99stale");
        fs::write(&stale, "Acquire::Check-Valid-Until \"false\";\n")
            .map_err(|error| format!("{}: {error}", stale.display()))?;
        Ok(made)
    }

    /// Runs a shell in the system, with processes and mounts of its own.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "chroot"]).arg(self.0);
        command.args(["/bin/bash", "-euxc"]);
        command
            .arg(format!("mount -t proc proc /proc\nexport DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8\n{script}"));
        command.env_remove("LD_PRELOAD").env("HOME", "/tmp").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    /// All files that a package may leave, outside of what the package manager writes for itself and of what is in memory
    /// on a system that was booted.
    fn files(&self) -> Result<Vec<String>, String> {
        let mut find = Command::new("find");
        find.arg(".");
        for own in ["./proc", "./dev", "./run", "./var/lib/dpkg", "./var/log", "./var/cache"] {
            find.args(["-path", own, "-prune", "-o"]);
        }
        let mut found: Vec<String> = said(find.arg("-print").current_dir(self.0))?.lines().map(str::to_owned).collect();
        found.sort();
        Ok(found)
    }

    /// Installs those of the made files that are packages.
    pub fn install(&self, made: &[PathBuf]) -> Result<(), String> {
        let debs: Vec<&PathBuf> = made.iter().filter(|path| path.extension().is_some_and(|it| it == "deb")).collect();
        let folder = self.0.join("packages");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for deb in &debs {
            let to = folder.join(deb.file_name().unwrap_or_default());
            fs::copy(deb, to).map_err(|error| format!("{}: {error}", deb.display()))?;
        }
        succeeds(&mut self.shell("apt-get -qq install --no-install-recommends /packages/*.deb\nrm -r /packages"))
    }

    fn try_packages(&self, made: &[PathBuf]) -> Result<(), String> {
        succeeds(&mut self.shell(&format!("apt-get -qq update\napt-get -qq install --no-install-recommends {TOOLS}")))?;
        let before = self.files()?;
        self.install(made)?;
        succeeds(&mut self.shell(USE))?;
        succeeds(&mut self.shell("apt-get -qq purge 'commensal' 'libcommensal*'"))?;
        let left: Vec<String> = self.files()?.into_iter().filter(|path| before.binary_search(path).is_err()).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("the packages left {}", left.join(", "))) }
    }
}
