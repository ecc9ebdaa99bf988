//! etcd as it is run: with TLS and users, with three members; and servers of different releases on it.

use std::{fs, path::Path, process::Command, time::Duration};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use serde_json::{Value, json};

use crate::{
    cluster::{
        proxy::Proxy,
        rig::{self, Etcd, NEVER, ask, ask_until_taken, etcdctl, follows, leads, session, start, start_with},
    },
    common,
    shim::server::Server,
};

/// `ca.pem`, `cert.pem` and `key.pem` in a directory, for 127.0.0.1, for both sides.
fn certificates(dir: &Path) {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    fs::write(dir.join("ca.pem"), params.self_signed(&key).expect("signed").pem()).expect("written");
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().expect("a key");
    fs::write(dir.join("cert.pem"), params.signed_by(&key, &issuer).expect("signed").pem()).expect("written");
    fs::write(dir.join("key.pem"), key.serialize_pem()).expect("written");
}

/// From here on etcd asks who somebody is; the user `board` may write what is Callboard's.
fn let_board_in(ctl: impl Fn(&[&str]) -> String) {
    for change in [
        &["user", "add", "root:all-of-it"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "callboard"],
        &["role", "grant-permission", "callboard", "--prefix=true", "readwrite", "/callboard/"],
        &["user", "add", "board:secret"],
        &["user", "grant-role", "board", "callboard"],
        &["auth", "enable"],
    ] {
        ctl(change);
    }
}

#[tokio::test]
async fn etcd_may_ask_for_certificates_and_users() {
    let test = "etcd_may_ask_for_certificates_and_users";
    if !rig::is_installed(test) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    certificates(dir.path());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (ca, cert, key, password) = (file("ca.pem"), file("cert.pem"), file("key.pem"), file("password"));
    let tls = ["--cert-file", &cert, "--key-file", &key, "--trusted-ca-file", &ca, "--client-cert-auth"];
    let etcd = Etcd::with("https", &tls).expect("etcd starts");
    let shown = ["--cacert", &ca, "--cert", &cert, "--key", &key];
    let ctl = |more: &[&str]| etcdctl(&etcd.url(), &[&shown, more].concat());
    let_board_in(ctl);
    fs::write(&password, "secret\n").expect("written");
    let options = [
        "--cluster-ca",
        &ca,
        "--cluster-cert",
        &cert,
        "--cluster-key",
        &key,
        "--cluster-user",
        "board",
        "--cluster-password-file",
        &password,
    ];
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let mut first = start_with(&etcd.url(), one.path(), NEVER, &options);
    let second = start_with(&etcd.url(), two.path(), NEVER, &options);
    session(&first).await;
    follows(&second).await;
    ask(&first, &["k1"]).await;
    // A token of etcd that is over is got anew: those of this kind end with the members that gave them.
    first.program.kill();
    leads(&second).await;
    ask(&second, &["k2"]).await;
    assert!(!second.program.log().contains("secret") && !first.program.log().contains("secret"));
    // A wrong password is told, and not shown.
    fs::write(&password, "wrong-one\n").expect("written");
    let third = tempfile::tempdir().expect("a directory");
    let data = third.path().display().to_string();
    let mut command = common::serve(&[&["--data", &data, "--cluster", &etcd.url()], &options[..]].concat());
    let log = dir.path().join("stderr");
    command.stderr(fs::File::create(&log).expect("a file")).stdout(std::process::Stdio::null());
    let mut child = command.spawn().expect("starts");
    let told = common::answer(
        "the log",
        async || fs::read_to_string(&log).unwrap_or_default(),
        |log| log.contains("etcd-silent"),
    )
    .await;
    let _ = child.kill();
    let _ = child.wait();
    assert!(told.contains("authentication failed") && !told.contains("wrong-one"), "{told}");
}

#[tokio::test]
async fn certificates_for_etcd_may_be_replaced_while_a_server_runs() {
    let test = "certificates_for_etcd_may_be_replaced_while_a_server_runs";
    if !rig::is_installed(test) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    certificates(dir.path());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("cert.pem"), file("key.pem"));
    let tls = ["--cert-file", &cert, "--key-file", &key, "--trusted-ca-file", &ca, "--client-cert-auth"];
    let mut etcd = Etcd::with("https", &tls).expect("etcd starts");
    let options = ["--cluster-ca", &ca, "--cluster-cert", &cert, "--cluster-key", &key];
    let data = tempfile::tempdir().expect("a directory");
    let server = start_with(&etcd.url(), data.path(), NEVER, &options);
    session(&server).await;
    // Those of before are believed by nobody then.
    etcd.kill();
    let trouble = async || server.get("/api/v1/cluster").await.1["etcd"]["trouble"].clone();
    common::answer("trouble with etcd", trouble, |trouble| trouble.is_string()).await;
    fs::remove_file(&cert).expect("removed");
    common::answer("the file", trouble, |trouble| trouble.to_string().contains("cert.pem: cannot be read")).await;
    certificates(dir.path());
    etcd.again();
    common::answer("no trouble with etcd", trouble, |trouble| trouble.is_null()).await;
    // Where something was to be recorded meanwhile, it is tried again a little later.
    ask_until_taken(&server, "k1").await;
}

#[tokio::test]
async fn users_of_etcd_may_change_while_tokens_tell_of_those_before() {
    let test = "users_of_etcd_may_change_while_tokens_tell_of_those_before";
    if !rig::is_installed(test) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (private, public, password) = (file("key.pem"), file("public.pem"), file("password"));
    let openssl = |args: &[&str]| Command::new("openssl").args(args).output().is_ok_and(|told| told.status.success());
    if !openssl(&["genrsa", "-out", &private, "2048"]) {
        return common::skip(test, "openssl is not installed");
    }
    assert!(openssl(&["rsa", "-in", &private, "-pubout", "-out", &public]), "a public key");
    let token = format!("jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl=10m");
    let etcd = Etcd::with("http", &["--auth-token", &token]).expect("etcd starts");
    let ctl = |more: &[&str]| etcdctl(&etcd.url(), more);
    let_board_in(ctl);
    fs::write(&password, "secret\n").expect("written");
    let options = ["--cluster-user", "board", "--cluster-password-file", &password];
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let proxy = Proxy::to(&etcd.url());
    // Of two members the first is not there: where a user is named too, the other has its turn.
    let first = start_with(&format!("http://127.0.0.1:1,{}", etcd.url()), one.path(), NEVER, &options);
    let second = start_with(&proxy.url(), two.path(), NEVER, &options);
    session(&first).await;
    follows(&second).await;
    let root = |more: &[&str]| ctl(&[&["--user", "root:all-of-it"], more].concat());
    root(&["user", "add", "somebody:else"]);
    ask(&first, &["k1"]).await;
    first.register("rm-2", &[]).await;
    // A watch that begins with a token of before.
    root(&["user", "delete", "somebody"]);
    proxy.cut();
    proxy.pass();
    ask(&first, &["k2"]).await;
    let both = async || (first.get("/api/v1/cluster").await.1, second.get("/api/v1/cluster").await.1);
    common::answer("what both know", both, |(led, followed)| {
        let of = |status: &Value, what: &str| {
            let all = status["resourceManagers"].as_array().cloned().unwrap_or_default();
            all.iter().map(|group| group[what].as_u64()).collect::<Vec<_>>()
        };
        of(led, "index").len() == 2
            && of(led, "index") == of(followed, "applied")
            && followed["etcd"]["trouble"].is_null()
    })
    .await;
}

#[tokio::test]
async fn a_server_whose_user_may_only_read_says_that_it_is_not_there() {
    let Some(etcd) = rig::etcd("a_server_whose_user_may_only_read_says_that_it_is_not_there") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let password = dir.path().join("password").display().to_string();
    fs::write(&password, "secret\n").expect("written");
    let_board_in(|more| etcdctl(&etcd.url(), more));
    let may = |what: &str| {
        let user = ["--user", "root:all-of-it"];
        let grant = ["role", "grant-permission", "callboard", "--prefix=true", what, "/callboard/"];
        etcdctl(&etcd.url(), &[&user[..], &grant].concat());
    };
    may("read");
    let data = dir.path().join("data");
    let options = ["--cluster-user", "board", "--cluster-password-file", &password];
    let server = start_with(&etcd.url(), &data, NEVER, &options);
    common::answer("its log", async || server.program.log(), |log| log.contains("cluster-not-there")).await;
    let register = async || server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1"})).await;
    let (status, refused) = register().await;
    assert!(status == 503 && refused["detail"].to_string().contains("leads nothing at present"), "{refused}");
    may("readwrite");
    common::answer("a registration", register, |(status, _)| *status == 200).await;
}

#[tokio::test]
async fn three_servers_on_three_members_outlive_one_of_each() {
    if !rig::is_installed("three_servers_on_three_members_outlive_one_of_each") {
        return;
    }
    let mut members = Etcd::three();
    let urls = members.iter().map(Etcd::url).collect::<Vec<_>>().join(",");
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let mut servers: Vec<Server> = dirs.iter().map(|dir| start_with(&urls, dir.path(), NEVER, &[])).collect();
    session(&servers[0]).await;
    for other in &servers[1..] {
        follows(other).await;
    }
    ask(&servers[0], &["k1"]).await;
    // Whichever member a server speaks to: each goes once, and comes back.
    for (member, key) in ["k2", "k3", "k4"].into_iter().enumerate() {
        members[member].kill();
        ask_until_taken(&servers[0], key).await;
        members[member].again();
    }
    assert_eq!(servers[0].get("/si/v1/rm/rm-1").await.1["epoch"], 1);
    members[0].kill();
    servers[0].program.kill();
    // One of the two others leads, and the other knows.
    let who = async || {
        let (one, two) = (servers[1].get("/si/v1/rm/rm-1").await.0, servers[2].get("/si/v1/rm/rm-1").await.0);
        [one, two]
    };
    let who = common::answer("who leads", who, |who| who.contains(&200) && who.contains(&307)).await;
    let leader = if who[0] == 200 { &servers[1] } else { &servers[2] };
    ask_until_taken(leader, "k5").await;
    let trouble = async || leader.get("/api/v1/cluster").await.1["etcd"]["trouble"].clone();
    common::answer("no trouble with etcd", trouble, |trouble| trouble.is_null()).await;
}

#[tokio::test]
async fn a_server_that_is_cut_off_from_etcd_is_replaced_and_follows_afterwards() {
    let Some(etcd) = rig::etcd("a_server_that_is_cut_off_from_etcd_is_replaced_and_follows_afterwards") else { return };
    let proxy = Proxy::to(&etcd.url());
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let first = start_with(&proxy.url(), one.path(), NEVER, &[]);
    let second = start(&etcd, two.path(), NEVER);
    session(&first).await;
    follows(&second).await;
    ask(&first, &["k1"]).await;
    for (round, key) in [(0, "k2"), (1, "k3")] {
        let (leader, other) = if round == 0 { (&first, &second) } else { (&second, &first) };
        if round == 0 {
            // Its connections stay open, and nothing goes through: the lease ends.
            proxy.stall();
            leads(other).await;
            // What it was told before it knows is not taken.
            let body = json!({"allocations": [{"allocationKey": "lost", "applicationID": "app", "partitionName": "default",
                "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}}]});
            let sent = leader.http.post(leader.url("/si/v1/rm/rm-1/allocations")).json(&body);
            let sent = sent.timeout(Duration::from_secs(1)).send().await;
            assert!(sent.is_err() || sent.is_ok_and(|answer| answer.status().as_u16() != 202));
            ask(other, &[key]).await;
            proxy.pass();
        } else {
            // One that follows is cut off, and catches up.
            proxy.cut();
            ask(leader, &[key]).await;
            proxy.pass();
        }
        follows(if round == 0 { leader } else { other }).await;
    }
    let caught_up = async || first.get("/api/v1/cluster").await.1["resourceManagers"][0].clone();
    common::answer("the resource manager", caught_up, |group| {
        group["applied"].is_u64() && group["applied"] == group["index"]
    })
    .await;
    // No stream was opened since, so what was asked meanwhile waits.
    let (_, app) = second.get("/ws/v1/partition/default/application/app").await;
    let are = |what: &str| app[what].as_array().map_or(0, Vec::len);
    assert!(are("allocations") + are("requests") == 3 && !app.to_string().contains("lost"), "{app}");
}

#[tokio::test]
async fn a_server_of_an_earlier_release_follows_only_what_it_understands_and_says_so() {
    let test = "a_server_of_an_earlier_release_follows_only_what_it_understands_and_says_so";
    let Some(etcd) = rig::etcd(test) else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let mut leader = start(&etcd, one.path(), NEVER);
    session(&leader).await;
    ask(&leader, &["k1"]).await;
    leader.program.kill();
    // As a later release would have written it: records by rules that this one does not know.
    let get = ["get", "--print-value-only", "--prefix", "/callboard/heads/"];
    let mut head: Value = serde_json::from_str(etcdctl(&etcd.url(), &get).trim()).expect("JSON");
    let own = head["domain"].as_u64().expect("a number");
    let key = "/callboard/heads/rm-1";
    head["domain"] = json!(own + 1);
    etcdctl(&etcd.url(), &["put", key, &head.to_string()]);
    let earlier = start(&etcd, two.path(), NEVER);
    let told = async || earlier.get("/api/v1/cluster").await.1["resourceManagers"][0].clone();
    let told = common::answer("the resource manager", told, |group| group["role"] == "cannot follow").await;
    let why = told["fault"].as_str().expect("why").to_owned();
    let expected = format!("its records have version {}, and this server knows up to {own}", own + 1);
    assert!(why.contains(&expected) && why.contains("follows after an upgrade"), "{why}");
    // Nobody leads it, and it does not take it over: its shim is told to come again, and cannot register here either.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(earlier.get("/si/v1/rm/rm-1").await.0, 503);
    assert_eq!(earlier.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1"})).await.0, 503);
    assert!(earlier.program.log().contains("cluster-cannot-follow"), "{}", earlier.program.log());
    let shown = rig::run(&["cluster", "--server", &earlier.url(""), "status"]);
    assert!(shown.contains("cannot follow rm-1") && shown.contains(&expected), "{shown}");
    // One that may (here: the release that wrote it) goes on: records of the version before are followed.
    head["domain"] = json!(own);
    etcdctl(&etcd.url(), &["put", key, &head.to_string()]);
    let later = tempfile::tempdir().expect("a directory");
    let later = start(&etcd, later.path(), NEVER);
    let info = leads(&later).await;
    assert_eq!(info["epoch"], 1, "{info}");
    ask(&later, &["k2"]).await;
}

#[tokio::test]
async fn an_etcd_that_is_out_of_space_is_trouble_with_etcd() {
    let Some(etcd) = rig::etcd("an_etcd_that_is_out_of_space_is_trouble_with_etcd") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(&etcd, dir.path(), NEVER);
    session(&server).await;
    // Which members have it is of no account for what it refuses.
    let alarm = json!({"action": "ACTIVATE", "memberID": "1", "alarm": "NOSPACE"});
    let raised = rig::straight().post(format!("{}/v3/maintenance/alarm", etcd.url())).json(&alarm).send().await;
    assert_eq!(raised.expect("an answer").status().as_u16(), 200);
    let trouble = async || server.get("/api/v1/cluster").await.1["etcd"]["trouble"].clone();
    let told = common::answer("trouble with etcd", trouble, |trouble| trouble.is_string()).await;
    assert!(told.to_string().contains("out of space") && told.to_string().contains("etcdctl alarm disarm"), "{told}");
    let metrics = server.http.get(server.url("/metrics")).send().await.expect("an answer").text().await.expect("text");
    assert!(metrics.contains("callboard_cluster_etcd_up 0"), "{metrics}");
    assert!(server.program.log().contains("etcd-full"), "{}", server.program.log());
    // What nobody knows is still known to be so.
    assert_eq!(server.get("/si/v1/rm/rm-9").await.0, 404);
    assert_eq!(server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-2"})).await.0, 503);
    etcdctl(&etcd.url(), &["alarm", "disarm"]);
    common::answer("no trouble with etcd", trouble, |trouble| trouble.is_null()).await;
    ask_until_taken(&server, "k1").await;
}
