//! What is compiled for the simulated machine is what is shipped: `simulated/` holds manifests only, each names the sources of its original,
//! and differs from it in nothing but the machine. Nothing that is shipped names the simulated machine.

use toml_edit::{DocumentMut, Item};

use crate::tree::{File, Tree, Violation};

const FOLDER: &str = "simulated/";
const HOST: &str = "commensal-machine-host";
const SIMULATED: &str = "commensal-machine-simulated";
/// The folders of packages that have twins, with those of the twins.
const TWINS: [(&str, &str); 3] = [
    ("runtime", "simulated/runtime"),
    ("workload", "simulated/workload"),
    ("machine/conformance", "simulated/conformance"),
];
/// The packages that the shipped library is made of.
const SHIPPED: [&str; 3] = ["machine/host/Cargo.toml", "runtime/Cargo.toml", "malloc/Cargo.toml"];

/// Finds differences that are none of the machine.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let sources = tree.files.iter().filter(|file| file.path.starts_with(FOLDER) && !file.path.ends_with("/Cargo.toml"));
    let mut violations: Vec<Violation> =
        sources.map(|file| file.violation(1, "lies in simulated/, which holds manifests only; move it")).collect();
    for file in tree.files.iter().filter(|file| SHIPPED.contains(&file.path.as_str())) {
        let named = file.text.lines().position(|line| line.contains(SIMULATED) || line.contains("-simulated\""));
        violations.extend(named.map(|line| file.violation(line + 1, "is shipped, and names the simulated machine")));
    }
    for (original, twin) in TWINS {
        let manifest = |folder: &str| tree.files.iter().find(|file| file.path == format!("{folder}/Cargo.toml"));
        if let (Some(first), Some(second)) = (manifest(original), manifest(twin)) {
            violations.extend(compare(original, first, second).into_iter().map(|what| second.violation(1, what)));
        }
    }
    violations
}

/// What is wrong with a twin.
fn compare(folder: &str, original: &File, twin: &File) -> Vec<String> {
    let (Ok(original), Ok(twin)) = (original.text.parse::<DocumentMut>(), twin.text.parse::<DocumentMut>()) else {
        return vec!["is not TOML, or its original is not; Cargo says where".to_owned()];
    };
    let mut wrong = Vec::new();
    let path = format!("../../{folder}/src/lib.rs");
    if text(&twin, &["lib", "path"]) != Some(&path) {
        wrong.push(format!("has other sources than its original; its [lib] needs path = \"{path}\""));
    }
    for (manifest, machine, which) in [(&original, HOST, "the original's"), (&twin, SIMULATED, "its")] {
        if text(manifest, &["dependencies", "machine", "package"]) != Some(machine) {
            wrong.push(format!("{which} machine is not {machine}; the name `machine` decides it"));
        }
    }
    let names = |manifest: &DocumentMut| -> Vec<String> {
        let table = manifest.get("dependencies").and_then(Item::as_table_like);
        // Only the program for the host calls the C library.
        table.map_or(Vec::new(), |table| {
            table.iter().map(|(name, _)| name.to_owned()).filter(|name| name != "libc").collect()
        })
    };
    let (mut here, mut there) = (names(&twin), names(&original));
    here.sort();
    there.sort();
    if here != there {
        wrong.push(format!("depends on {here:?}, its original on {there:?}; they differ in the machine only"));
    }
    if twin.get("features").is_some() {
        wrong.push("has features; the machine is decided by its name".to_owned());
    }
    wrong
}

fn text<'a>(manifest: &'a DocumentMut, path: &[&str]) -> Option<&'a str> {
    let mut item = manifest.as_item();
    for key in path {
        item = item.get(key)?;
    }
    item.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINAL: &str =
        "[dependencies]\nmachine = { package = \"commensal-machine-host\", path = \"../machine/host\" }\n";
    const TWIN: &str = "[lib]\npath = \"../../runtime/src/lib.rs\"\n[dependencies]\n\
                        machine = { package = \"commensal-machine-simulated\", path = \"../../machine/simulated\" }\n";

    fn found(twin: &str) -> usize {
        check(&Tree::of([("runtime/Cargo.toml", ORIGINAL), ("simulated/runtime/Cargo.toml", twin)])).len()
    }

    #[test]
    fn a_twin_differs_in_the_machine_only() {
        assert_eq!(found(TWIN), 0);
        assert_eq!(found(&TWIN.replace("runtime/src", "other/src")), 1);
        assert_eq!(found(&TWIN.replace("commensal-machine-simulated", "commensal-machine-host")), 1);
        assert_eq!(found(&format!("{TWIN}more = \"1\"\n")), 1);
        assert_eq!(found(&format!("{TWIN}[features]\nquick = []\n")), 1);
        assert_eq!(found("[dependencies]\n"), 3);
    }

    #[test]
    fn sources_beside_the_manifests_and_shipped_simulations_are_found() {
        assert_eq!(check(&Tree::of([("simulated/runtime/src/lib.rs", "")])).len(), 1);
        assert_eq!(check(&Tree::of([("malloc/Cargo.toml", TWIN)])).len(), 1);
        assert_eq!(check(&Tree::of([("malloc/Cargo.toml", ORIGINAL)])).len(), 0);
    }
}
