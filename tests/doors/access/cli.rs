//! The commands as clients of a server that wants a token and speaks TLS with a certificate that nobody knows.

use std::{fs, process::Output};

use crate::access::rig::{Server, certificate, program, standard, token, token_file};

struct Rig {
    server: Server,
    ca: String,
}

impl Rig {
    fn start() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let [ca, key] = certificate(dir.path());
        let tokens = dir.path().join("tokens");
        fs::write(&tokens, standard()).unwrap();
        let tokens = tokens.display().to_string();
        let server = Server::start_in(dir, &["--tokens", &tokens, "--tls-cert", &ca, "--tls-key", &key]);
        Rig { server, ca }
    }

    fn run(&self, args: &[&str], token: Option<&str>) -> Output {
        let mut command = program(args);
        if let Some(token) = token {
            command.env("CALLBOARD_TOKEN", token);
        }
        command.env("CALLBOARD_SERVER", self.server.address("http")).output().unwrap()
    }

    /// It fails, and says this.
    fn fails(&self, args: &[&str], token: Option<&str>, says: &str) {
        let output = self.run(args, token);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(says), "{args:?}: {text}");
        assert!(!text.contains("secret-of"), "{text}");
    }
}

#[test]
fn commands_send_a_token_and_believe_an_authority() {
    let rig = Rig::start();
    let operator = token_file(rig.server.dir.path(), "operator");
    let viewer = token("viewer");
    let ca = ["--ca", &rig.ca];
    for command in [&["events"][..], &["resource", "--partition", "nope"], &["journal", "--partition", "nope"]] {
        let args = |more: &[&'static str]| -> Vec<String> {
            let (name, rest) = command.split_first().unwrap();
            let tail: &[&str] = if *name == "resource" { &["status"] } else { &[] };
            [&[*name], &ca[..], rest, more, tail].concat().into_iter().map(str::to_owned).collect()
        };
        let list = args(&[]);
        let list: Vec<&str> = list.iter().map(String::as_str).collect();
        rig.fails(&list, None, "this needs a token");
        rig.fails(&list, Some("cbt_other"), "not one of this server");
        let stranger: Vec<&str> = list.iter().copied().filter(|word| *word != "--ca" && *word != rig.ca).collect();
        rig.fails(&stranger, Some(&viewer), "UnknownIssuer");
        if *command.first().unwrap() == "events" {
            let output = rig.run(&list, Some(&viewer));
            assert!(output.status.success(), "{output:?}");
        } else {
            rig.fails(&list, Some(&viewer), "partition 'nope' not found");
        }
    }
    let drain = ["resource", "--ca", &rig.ca, "drain", "0", "disk"];
    rig.fails(&drain, Some(&viewer), "this needs the role operator; the token \"viewer\" has the role viewer");
    let drain = ["resource", "--ca", &rig.ca, "--token-file", &operator, "drain", "0", "disk"];
    rig.fails(&drain, None, "partition 'default' not found");
    let audit = ["audit", "--ca", &rig.ca];
    rig.fails(
        &audit,
        Some(&viewer),
        "callboard: this needs the role operator; the token \"viewer\" has the role viewer",
    );
    let plain = rig.server.address("http").replace("https://", "http://");
    rig.fails(&["ready", "--server", &plain], None, "(does it speak TLS? try https://)");
    let clear = Server::start(&[]);
    let encrypted = clear.address("http").replace("http://", "https://");
    rig.fails(&["ready", "--server", &encrypted], None, "(does it speak TLS? try http://)");
    rig.fails(&["events", "--token-file", "/nonexistent/token"], None, "/nonexistent/token");
    rig.fails(&["events", "--ca", "/nonexistent/ca"], None, "/nonexistent/ca");
}

#[test]
fn replay_and_bench_go_through_both_doors() {
    let rig = Rig::start();
    let shim = token_file(rig.server.dir.path(), "shim");
    let (http, grpc) = (rig.server.address("http"), rig.server.address("grpc"));
    let report = rig.server.dir.path().join("report.html").display().to_string();
    let trust = ["--ca", &rig.ca, "--token-file", &shim];
    let replay = |door: &[&str]| {
        let args = [&["replay", "--server", &http, "--report", &report][..], &trust, door].concat();
        let output = rig.run(&args, None);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    replay(&[]);
    replay(&["--door", "grpc", "--grpc", &grpc]);
    for (depth, url) in [("http", &http), ("grpc", &grpc)] {
        let shape = ["bench", "--shape", "S1", "--nodes", "5", "--asks", "20", "--depth", depth, "--endpoint", url];
        let output = rig.run(&[&shape[..], &trust].concat(), None);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    rig.fails(&["replay", "--server", &http, "--ca", &rig.ca], Some(&token("viewer")), "needs the role shim");
}
