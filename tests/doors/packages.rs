//! What packages rely on: the service manager is told how the server is, and the image's root has all that the program needs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixDatagram},
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::{LIMIT, Program, serve, skip, skip_forbidden};

/// Set where the program cannot be confined as the unit and the image confine it.
const NO_CONFINING: &str = "CALLBOARD_TEST_NO_CONFINING";

#[tokio::test]
async fn the_service_manager_is_told_how_the_server_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    is_told(&socket, &path.display().to_string()).await;
}

/// One that has a name and no path.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_service_manager_is_told_over_an_abstract_socket() {
    use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};

    let name = format!("callboard-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let socket = UnixDatagram::bind_addr(&address).expect("a socket");
    is_told(&socket, &format!("@{name}")).await;
}

async fn is_told(socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(LIMIT)).expect("a time limit");
    let told = || {
        let mut text = [0; 1_024];
        let length = socket.recv(&mut text).expect("the server tells something");
        String::from_utf8_lossy(&text[..length]).trim().to_owned()
    };
    let mut command = serve(&[]);
    command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "600000").env_remove("WATCHDOG_PID");
    let server = Program::try_start(command).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(told(), "READY=1");
    // More often than it is expected, again and again.
    assert_eq!([told(), told(), told()], ["WATCHDOG=1"; 3].map(str::to_owned));
    server.signal("TERM");
    let last = loop {
        match told() {
            beat if beat == "WATCHDOG=1" => {}
            other => break other,
        }
    };
    assert_eq!(last, "STOPPING=1");
    assert_eq!(server.ended().await, Some(0));
}

#[test]
fn the_unit_is_understood_and_hardened() {
    if !Command::new("systemd-analyze").arg("--version").output().is_ok_and(|done| done.status.success()) {
        return skip("the_unit_is_understood_and_hardened", "systemd-analyze is not installed");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let unit = dir.path().join("callboard.service");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd/callboard.service");
    // Where the program is, in this test.
    let start = format!("ExecStart={} serve", env!("CARGO_BIN_EXE_callboard"));
    let text = fs::read_to_string(file).expect("it is there").replace("ExecStart=callboard serve", &start);
    assert!(text.contains(&start), "{text}");
    fs::write(&unit, text).expect("written");
    let analyze = |args: &[&str]| {
        let done = Command::new("systemd-analyze").args(args).arg(&unit).output().expect("it runs");
        let said = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (fine, said) = analyze(&["verify"]);
    assert!(fine && !said.contains("callboard.service:"), "{said}");
    // In tenths: nothing is open that need not be.
    let (fine, said) = analyze(&["security", "--offline=true", "--threshold=15", "--no-pager"]);
    assert!(fine, "{said}");
}

/// The server as the unit confines its view of the system: what it hides must not be what a start after a kill needs.
#[tokio::test]
async fn sessions_go_on_after_a_kill_under_the_unit() {
    let test = "sessions_go_on_after_a_kill_under_the_unit";
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd/callboard.service");
    let unit = fs::read_to_string(unit).expect("it is there");
    let hides = |line: &str, option: &'static str| unit.lines().any(|own| own == line).then_some(option);
    let options = [hides("ProcSubset=pid", "subset=pid"), hides("ProtectProc=invisible", "hidepid=invisible")];
    let options: Vec<&str> = options.into_iter().flatten().collect();
    let mount = format!("mount -t proc -o {} proc /proc", [&["nosuid"], &*options].concat().join(","));
    let tried = Command::new("unshare").args(["--mount", "sh", "-c", &mount]).output();
    if !tried.is_ok_and(|done| done.status.success()) {
        return skip_forbidden(test, NO_CONFINING, "no view of processes can be mounted here (unshare, mount)");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let start = || {
        let inner = serve(&["--data", dir.path().to_str().expect("text"), "--grpc", "off"]);
        let mut outer = Command::new("unshare");
        outer.args(["--mount", "sh", "-c", &format!("{mount} && exec \"$@\""), "sh"]);
        outer.arg(inner.get_program()).args(inner.get_args());
        Program::try_start(outer).unwrap_or_else(|why| panic!("{why}"))
    };
    let mut server = start();
    let register =
        r#"{"rmID":"rm-1","config":"partitions: [{name: default, queues: [{name: root, submitacl: '*'}]}]"}"#;
    let url = |server: &Program, path: &str| format!("{}{path}", server.address("http"));
    let sent = reqwest::Client::new().post(url(&server, "/si/v1/rm")).body(register);
    let sent = sent.header("content-type", "application/json").send().await.expect("an answer");
    assert!(sent.status().is_success());
    server.kill();
    let server = start();
    let text = |path: &str| {
        let url = url(&server, path);
        async move { reqwest::get(url).await.expect("an answer").text().await.expect("text") }
    };
    let session: serde_json::Value = serde_json::from_str(&text("/si/v1/rm/rm-1").await).expect("JSON");
    assert_eq!(session["state"], "Paused", "{session}\n{}", server.log());
    let metrics = text("/metrics").await;
    let started = metrics.lines().find_map(|line| line.strip_prefix("process_start_time_seconds ")).expect("told");
    assert!(started.parse::<f64>().expect("a number") > 1e9, "{started}");
}

#[test]
fn the_root_of_the_image_has_all_that_the_program_needs() {
    let test = "the_root_of_the_image_has_all_that_the_program_needs";
    for tool in ["strip", "ldd", "unshare"] {
        if !Command::new(tool).arg("--version").output().is_ok_and(|done| done.status.success()) {
            return skip(test, &format!("{tool} is not installed"));
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/container/rootfs.sh");
    // Whatever those who make it keep from others: its user is one of them.
    let mut made = Command::new("sh");
    made.args(["-c", "umask 077 && exec \"$@\"", "sh"]).arg(script).arg(env!("CARGO_BIN_EXE_callboard")).arg(&root);
    let made = made.output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mode = |path: &str| fs::metadata(root.join(path)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("usr/bin/callboard"), mode("usr/bin"), mode("etc/passwd")), (0o755, 0o755, 0o644));
    let inside = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--root"]).arg(&root).args(args).env_clear().output().expect("it runs")
    };
    let version = inside(&["/usr/bin/callboard", "--version"]);
    if !version.status.success() && String::from_utf8_lossy(&version.stderr).contains("Operation not permitted") {
        return skip_forbidden(test, NO_CONFINING, "this machine lets nobody have a root of their own");
    }
    assert_eq!(
        String::from_utf8_lossy(&version.stdout).trim(),
        concat!("callboard ", env!("CARGO_PKG_VERSION")),
        "{}",
        String::from_utf8_lossy(&version.stderr)
    );
    // It starts, and ends because there is no door: nothing that it loads is missing.
    let none = inside(&["/usr/bin/callboard", "serve", "--http", "off", "--grpc", "off", "--ephemeral"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("leave no door open"), "{none:?}");
}

/// What stands below a folder, by its path in it.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut open) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(here) = open.pop() {
        for path in fs::read_dir(&here).expect("it can be listed").map(|entry| entry.expect("an entry").path()) {
            match path.is_dir() {
                true => open.push(path),
                false => drop(found.insert(path.strip_prefix(folder).expect("below it").to_owned())),
            }
        }
    }
    found
}

/// The documents and what they name, as a release has them.
fn documents(to: &Path) -> BTreeSet<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/copy.sh");
    let copied = Command::new(script).arg(to).output().expect("it runs");
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    files(to)
}

#[test]
fn what_is_given_out_has_what_its_documents_link_to() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut missing, mut seen) = (BTreeMap::<PathBuf, BTreeSet<String>>::new(), 0);
    for page in documents(dir.path()).iter().filter(|path| path.extension().is_some_and(|end| end == "md")) {
        let page = dir.path().join(page);
        let text = fs::read_to_string(&page).expect("text");
        // Blocks between fences are examples.
        let prose: String = text.split("```").step_by(2).collect();
        for link in prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let target = page.with_file_name(file);
            if !target.is_file() {
                missing.entry(page.clone()).or_default().insert(link.to_owned());
            }
        }
    }
    assert!(seen > 600, "documents have links: {seen}");
    assert_eq!(missing, BTreeMap::new());
}

/// A machine that does not do what a script wants leaves no package half installed, and none that cannot be removed or purged.
#[test]
fn the_scripts_of_the_debian_package_pass_where_the_machine_refuses() {
    let dir = tempfile::tempdir().expect("a folder");
    let here = dir.path().to_str().expect("text");
    // One that knows no service manager, and no way to remove a directory, such as one on which a disk is mounted.
    for (program, status) in [("systemctl", 1), ("rm", 1), ("systemd-sysusers", 0), ("systemd-tmpfiles", 0)] {
        let file = dir.path().join(program);
        fs::write(&file, format!("#!/bin/sh\necho refused >&2\nexit {status}\n")).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("set");
    }
    let path = format!("{here}:{}", std::env::var("PATH").expect("a path"));
    let run = |script: &str, of: &str, root: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/debian").join(script);
        // Here the service manager is said to run.
        let text = fs::read_to_string(file).expect("it is there").replace("/run/systemd/system", here);
        let mut command = Command::new("sh");
        let done = command.args(["-c", &text, script, of]).env("PATH", &path).env("DPKG_ROOT", root).output();
        let done = done.expect("it runs");
        assert!(done.status.success(), "{script} {of}: {}", String::from_utf8_lossy(&done.stderr));
    };
    run("prerm", "remove", "");
    run("postrm", "upgrade", "");
    run("postrm", "remove", "");
    run("postinst", "configure", "");
    run("postrm", "purge", here);
}

#[test]
fn the_debian_package_is_installed_and_removed() {
    let test = "the_debian_package_is_installed_and_removed";
    for tool in ["cargo-deb", "dpkg", "dpkg-deb"] {
        if !Command::new(tool).arg("--version").output().is_ok_and(|done| done.status.success()) {
            return skip(test, &format!("{tool} is not installed"));
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (root, package) = (dir.path().join("root"), dir.path().join("callboard.deb"));
    let done = |command: &mut Command| {
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut made = Command::new("cargo-deb");
    made.args(["deb", "--no-build", "--no-strip", "--fast", "--offline", "--locked", "--profile", "dev", "--output"])
        .arg(&package);
    done(made.current_dir(env!("CARGO_MANIFEST_DIR")));
    let listed = done(Command::new("dpkg-deb").arg("--info").arg(&package));
    assert!(listed.contains("Package: callboard") && listed.contains("conffiles"), "{listed}");

    for folder in ["updates", "info", "triggers"] {
        fs::create_dir_all(root.join("var/lib/dpkg").join(folder)).expect("made");
    }
    fs::write(root.join("var/lib/dpkg/status"), "").expect("written");
    let dpkg = |what: &str, of: &Path| {
        let mut command = Command::new("dpkg");
        // The root has no shell: scripts run outside of it, and are told where it is.
        command.args([
            "--force-script-chrootless",
            "--force-depends",
            "--force-not-root",
            "--force-bad-path",
            "--log=/dev/null",
        ]);
        done(command.arg(format!("--root={}", root.display())).arg(what).arg(of))
    };
    dpkg("--install", &package);
    for file in [
        "usr/bin/callboard",
        "usr/lib/systemd/system/callboard.service",
        "usr/lib/sysusers.d/callboard.conf",
        "etc/callboard/environment",
        "usr/share/doc/callboard/docs/settings.md",
        "usr/share/doc/callboard/docs/tutorials/shim.py",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    // Whatever a document links to is beside it.
    let mut given = files(&root.join("usr/share/doc/callboard"));
    // Says what LICENSE says, under the name that Debian gives it.
    assert!(given.remove(Path::new("copyright")), "{given:?}");
    assert_eq!(given, documents(&dir.path().join("documents")), "assets in Cargo.toml, and docs/copy.sh");
    let version = done(Command::new(root.join("usr/bin/callboard")).arg("--version"));
    assert_eq!(version.trim(), concat!("callboard ", env!("CARGO_PKG_VERSION")));
    fs::create_dir_all(root.join("var/lib/callboard/events")).expect("made");
    dpkg("--remove", Path::new("callboard"));
    let left = |file: &str| root.join(file).exists();
    assert!(!left("usr/bin/callboard") && !left("usr/share/doc/callboard"), "the program is gone");
    assert!(left("etc/callboard/environment") && left("var/lib/callboard/events"), "what is the operator's stays");
    dpkg("--purge", Path::new("callboard"));
    assert!(!left("etc/callboard/environment") && !left("var/lib/callboard"), "until it is purged");
}
