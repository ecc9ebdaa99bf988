//! `docs/build.sh` deletes nothing that it did not make.

use std::{fs, process::Command};

use super::root;

#[test]
fn the_site_takes_the_place_of_nothing_else() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("somebody's");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("letter"), "dear").expect("a file");
    let above = root().parent().expect("a folder above");
    for named in [folder.as_path(), root(), above, &root().join("docs"), "--help".as_ref(), "".as_ref()] {
        let tried = Command::new("sh").arg(root().join("docs/build.sh")).arg(named).output().expect("sh runs");
        assert_eq!(tried.status.code(), Some(2), "{}: {tried:?}", named.display());
    }
    assert_eq!(fs::read_to_string(folder.join("letter")).expect("it is there"), "dear");
}
