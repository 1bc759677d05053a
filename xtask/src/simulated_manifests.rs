//! The manifests that compile a package a second time, on the simulated machine: made of the originals, from which they differ in the machine only.
//!
//! The command and the lab link the host's and the simulated runtime in one program. So each source is two packages, and `machine` names another
//! package in each. The manifests are committed, since Cargo reads them before anything can run.

use std::fs;
use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, value};

use crate::tree::{Tree, Violation};

/// Where the simulated packages lie; nothing else does.
const FOLDER: &str = "manifests/";
/// What is compiled twice.
const ORIGINALS: [(&str, &str); 3] =
    [("runtime", "runtime"), ("workload", "workload"), ("conformance", "machine/conformance")];
/// What the shipped library is made of.
const SHIPPED: [&str; 3] = ["machine/host/Cargo.toml", "runtime/Cargo.toml", "malloc/Cargo.toml"];

/// Writes all of them.
pub fn run(root: &Path) -> Result<(), String> {
    for (name, folder) in ORIGINALS {
        let original = fs::read_to_string(root.join(folder).join("Cargo.toml"))
            .map_err(|error| format!("{folder}/Cargo.toml cannot be read: {error}"))?;
        let path = root.join(file(name));
        let text = simulated(name, folder, &original)?;
        fs::write(&path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    Ok(())
}

/// Finds manifests that their originals would not make, sources beside them, and shipped packages that name the simulated machine.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, folder) in ORIGINALS {
        let Some(original) = tree.file(&format!("{folder}/Cargo.toml")) else { continue };
        match (simulated(name, folder, &original.text), tree.file(&file(name))) {
            (Ok(made), Some(found)) if made == found.text => {}
            (Ok(_), _) => {
                violations.push(original.violation(1, format!("makes another {}: cargo xtask manifests", file(name))))
            }
            (Err(why), _) => violations.push(original.violation(1, why)),
        }
    }
    let beside = tree.files.iter().filter(|file| file.path.starts_with(FOLDER) && !file.path.ends_with("/Cargo.toml"));
    violations.extend(beside.map(|file| file.violation(1, "lies in manifests/, which holds manifests only; move it")));
    for file in tree.files.iter().filter(|file| SHIPPED.contains(&file.path.as_str())) {
        let named = file.text.lines().position(|line| line.contains("simulated") && !line.starts_with('#'));
        violations.extend(named.map(|line| file.violation(line + 1, "is shipped, and names the simulated machine")));
    }
    violations
}

fn file(name: &str) -> String {
    format!("{FOLDER}simulated-{name}/Cargo.toml")
}

/// The manifest of `name` in `folder`, on the simulated machine.
fn simulated(name: &str, folder: &str, original: &str) -> Result<String, String> {
    let original: DocumentMut = original.parse().map_err(|_| "is not TOML; Cargo says where".to_owned())?;
    if original.get("features").is_some() {
        return Err("has features; the machine is decided by its name".to_owned());
    }
    let text = |item: &Item, key: &str| item.get(key).and_then(Item::as_str).map(str::to_owned);
    let description = text(&original["package"], "description").ok_or("has no description")?;
    let mut made: DocumentMut = format!(
        "# Made of {folder}/Cargo.toml by `cargo xtask manifests`.\n[package]\nname = \"simulated-{name}\"\n\
         description = \"{description}, on the simulated machine\"\nversion.workspace = true\nedition.workspace = true\n\
         rust-version.workspace = true\nlicense.workspace = true\npublish.workspace = true\nautotests = false\nautobins = false\n\
         autoexamples = false\n\n[lib]\npath = \"../../{folder}/src/lib.rs\"\ndoctest = false\n"
    )
    .parse()
    .map_err(|error| format!("makes a manifest that is not TOML: {error}"))?;
    let mut dependencies = Table::new();
    for (key, dependency) in original["dependencies"].as_table().into_iter().flat_map(Table::iter) {
        let package = match key {
            "machine" => Some("../../machine/simulated".to_owned()),
            "commensal-runtime" => Some("../simulated-runtime".to_owned()),
            _ => None,
        };
        let made = match package {
            Some(path) => {
                let package = path.rsplit('/').next().unwrap_or_default();
                value(toml_edit::InlineTable::from_iter([("package", package), ("path", &path)]))
            }
            None => dependency.clone(),
        };
        dependencies.insert(key, made);
        if let Some(mut key) = dependencies.key_mut(key) {
            key.leaf_decor_mut().set_prefix(format!("# As in {folder}/Cargo.toml.\n"));
        }
    }
    made["dependencies"] = Item::Table(dependencies);
    made["lints"] = Item::Table(Table::from_iter([("workspace", value(true))]));
    Ok(made.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINAL: &str = "[package]\nname = \"commensal-runtime\"\ndescription = \"Counts\"\n[dependencies]\n\
                            machine = { package = \"commensal-host\", path = \"../machine/host\" }\nfastrand = \"2\"\n";

    #[test]
    fn manifest_of_original_differs_in_the_machine_only() {
        let made = simulated("runtime", "runtime", ORIGINAL).unwrap();
        assert!(made.contains("machine = { package = \"simulated\", path = \"../../machine/simulated\" }"), "{made}");
        assert!(made.contains("fastrand = \"2\""), "{made}");
        assert!(made.contains("path = \"../../runtime/src/lib.rs\""), "{made}");
        assert!(simulated("runtime", "runtime", &format!("{ORIGINAL}[features]\nquick = []\n")).is_err());
    }

    #[test]
    fn manifest_that_original_would_not_make_is_found() {
        let made = simulated("runtime", "runtime", ORIGINAL).unwrap();
        let found = |twin: &str| {
            check(&Tree::of([("runtime/Cargo.toml", ORIGINAL), ("manifests/simulated-runtime/Cargo.toml", twin)])).len()
        };
        assert_eq!(found(&made), 0);
        assert_eq!(found(&made.replace("runtime/src", "other/src")), 1);
        assert_eq!(found(&format!("{made}more = \"1\"\n")), 1);
    }

    #[test]
    fn sources_beside_manifests_and_shipped_simulations_are_found() {
        assert_eq!(check(&Tree::of([("manifests/simulated-runtime/src/lib.rs", "")])).len(), 1);
        assert_eq!(
            check(&Tree::of([("malloc/Cargo.toml", "[dependencies]\nmachine = { package = \"simulated\" }")])).len(),
            1
        );
        assert_eq!(
            check(&Tree::of([("malloc/Cargo.toml", "[dependencies]\ncommensal-runtime = { path = \"../runtime\" }")]))
                .len(),
            0
        );
    }
}
