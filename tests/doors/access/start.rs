//! What the program refuses to start with, and `callboard token`.

use std::fs;

use callboard::access::{Digest, Tokens};

use crate::access::rig::{certificate, program};

/// What a start that fails says.
fn fails(args: &[&str]) -> (i32, String) {
    let output = program(args).output().expect("starts");
    assert!(output.stdout.is_empty(), "no ready line: {output:?}");
    (output.status.code().expect("it ended by itself"), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn only_loopback_without_tokens() {
    for door in ["--http", "--grpc"] {
        let (status, text) = fails(&["serve", "--ephemeral", door, "0.0.0.0:0"]);
        assert_eq!(status, 1, "{text}");
        assert!(text.contains(&format!("{door} 0.0.0.0:0")) && text.contains("--tokens FILE"), "{text}");
        assert!(text.contains("--insecure") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn files_that_are_wrong_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens").display().to_string();
    fs::write(&file, "# tokens\nking sha256:00\n").unwrap();
    let (status, text) = fails(&["serve", "--ephemeral", "--tokens", &file]);
    assert!(status == 1 && text.contains(&format!("{file}: line 2: role \"king\" does not exist")), "{text}");
    let (status, text) = fails(&["serve", "--ephemeral", "--tokens", "/nonexistent/tokens"]);
    assert!(status == 1 && text.contains("/nonexistent/tokens"), "{text}");
    let [cert, key] = certificate(dir.path());
    let (status, text) = fails(&["serve", "--ephemeral", "--tls-cert", &cert]);
    assert!(status == 2 && text.contains("--tls-key"), "{text}");
    let (status, text) = fails(&["serve", "--ephemeral", "--tls-cert", &cert, "--tls-key", &file]);
    assert!(status == 1 && text.contains(&format!("key file {file}")), "{text}");
    let (status, text) = fails(&["serve", "--ephemeral", "--tls-cert", &key, "--tls-key", &key]);
    assert!(status == 1 && text.contains(&format!("certificate file {key}")), "{text}");
}

#[test]
fn what_is_wrong_about_the_way_to_etcd_is_named() {
    let fails_with = |cluster: &str, more: &[&str], wanted: &str| {
        let fixed = ["serve", "--ephemeral", "--http", "127.0.0.1:0", "--grpc", "off", "--cluster", cluster];
        let (status, text) = fails(&[&fixed, more].concat());
        assert!(status == 1 && text.contains(wanted) && !text.contains("panic"), "{cluster} {more:?}: {text}");
    };
    for wrong in ["127.0.0.1:2379", "http://", "ftp://x"] {
        fails_with(wrong, &[], &format!("\"{wrong}\" is no URL of a member of etcd"));
    }
    fails_with("http://127.0.0.1:2379,", &[], "\"\" is no URL of a member of etcd");
    let dir = tempfile::tempdir().unwrap();
    let of_another = tempfile::tempdir().unwrap();
    let ([cert, key], [_, other]) = (certificate(dir.path()), certificate(of_another.path()));
    let with = |cert: &str, key: &str, wanted: &str| {
        fails_with("https://127.0.0.1:2379", &["--cluster-cert", cert, "--cluster-key", key], wanted);
    };
    with(&cert, &other, "the certificates for etcd are not sound");
    with(&cert, &cert, "the certificates for etcd are not sound");
    with("/nonexistent/cert", &key, "/nonexistent/cert: cannot be read");
}

#[test]
fn tokens_are_made_and_shown_once() {
    let output = program(&["token", "new", "--role", "operator", "--name", "alice"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let secret = lines.next().unwrap().strip_prefix("token (shown once): ").unwrap();
    let line = lines.next().unwrap().strip_prefix("line for the file:  ").unwrap();
    let (sum, rest) = line.strip_prefix("operator sum=").unwrap().split_once(' ').unwrap();
    assert!(sum.len() == 8 && sum.bytes().all(|digit| digit.is_ascii_hexdigit()), "{line}");
    assert_eq!(rest, format!("{} name=alice", Digest::of(secret)));

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    for name in ["one", "two"] {
        let args = ["token", "new", "--role", "shim", "--name", name, "--file", &file.display().to_string()];
        let output = program(&args).output().unwrap();
        let secret = String::from_utf8(output.stdout).unwrap();
        let tokens = Tokens::open(&file).unwrap();
        assert_eq!(&*tokens.find(secret.trim_end()).unwrap().name, name);
        assert!(!fs::read_to_string(&file).unwrap().contains(secret.trim_end()));
    }
    let output = program(&["token", "new", "--role", "king"]).output().unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("viewer, shim or operator"));
}
