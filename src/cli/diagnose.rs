//! `callboard diagnose`: what somebody who helps needs to know, in one file, without secrets, names of people and addresses.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::Ipv6Addr,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::LazyLock,
};

use anyhow::{Context as _, anyhow};
use clap::Args;
use flate2::{Compression, write::GzEncoder};
use hyper::Method;
use regex::{Captures, Regex};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    client::{net::Client, trust::Trust},
    context::ContextArg,
    flight::{
        self,
        redact::{DESCRIPTION, Hidden, WORDS, lines_of, queue_of, within, without},
    },
    out,
    secrets::{self, made},
    url,
};
use crate::{domain::types::Nanos, messages::clock::Clock};

/// Lines of the log that are taken.
const LINES: usize = 2_000;

/// So much of what the logs of resource managers hold is taken.
const FLIGHT: Nanos = Nanos::from_secs(600);

/// Has the options of the server.
const SETTINGS: &str = "settings.json";

/// What is asked of the server: name in the bundle and path.
const ASKED: [(&str, &str); 9] = [
    ("ready.json", "/readyz"),
    ("health.json", "/ws/v1/scheduler/healthcheck"),
    ("metrics.txt", "/metrics"),
    (SETTINGS, "/api/v1/settings"),
    ("configuration.json", "/ws/v1/config"),
    ("partitions.json", "/ws/v1/partitions"),
    ("overview.json", "/api/v1/overview"),
    ("sessions.json", "/si/v1/rm"),
    ("audit.ndjson", "/api/v1/audit?redact=true"),
];

/// Writes what is needed to find a fault into one file, without secrets, names of people and addresses
#[derive(Args, Clone, Debug)]
pub struct DiagnoseArgs {
    /// Address of the server, as host:port or URL; several, separated by commas, are tried in turn
    #[arg(long, value_name = "URL", value_parser = url::option, env = "CALLBOARD_SERVER", default_value = "http://127.0.0.1:9080")]
    pub server: String,
    /// The file that is written [default: callboard-diagnose.tar.gz]
    #[arg(long, value_name = "FILE", default_value = "callboard-diagnose.tar.gz", hide_default_value = true)]
    pub out: PathBuf,
    /// The server's log; without it that of the service callboard in the system's journal is taken, where there is one
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// The server's data directory, for what its logs hold of the last ten minutes; without it the one that a server on this
    /// machine names
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub context: ContextArg,
    #[command(flatten)]
    pub trust: Trust,
}

/// Runs the command: status 0 where everything was there, else 1; what was there is in the file either way.
///
/// # Errors
/// The file cannot be written.
pub async fn run(args: &DiagnoseArgs) -> anyhow::Result<ExitCode> {
    let mut told = Vec::new();
    let mut data = args.data.clone().map(Ok);
    let client = Client::new(&args.server, &args.trust).map_err(|text| anyhow!(text))?;
    for (name, path) in ASKED {
        let asked = ask(&client, args.server.trim_end_matches('/'), path).await;
        if name == SETTINGS && data.is_none() {
            data = asked.as_ref().ok().and_then(|text| named_directory(text));
        }
        told.push((name, asked));
    }
    told.push(("log.txt", log(args.log.as_deref())));
    let mut hider = Hider::new();
    for (_, text) in &told {
        text.iter().for_each(|text| hider.learn(text));
    }
    let flights = match data {
        Some(Ok(data)) => flights(&data, &mut hider),
        Some(Err(error)) => vec![("flight".to_owned(), Err(error))],
        None => Vec::new(),
    };
    let version = format!("callboard {}\n", env!("CALLBOARD_BUILD"));
    let mut parts = vec![("version.txt".to_owned(), Ok(version.into_bytes()))];
    let hidden = |(name, text): (&str, anyhow::Result<String>)| {
        (name.to_owned(), text.map(|text| hider.hidden(name, &text).into_bytes()))
    };
    parts.extend(told.into_iter().map(hidden));
    parts.extend(flights);
    let named = || format!("--out {}", args.out.display());
    let file = File::create(&args.out).with_context(named)?;
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    let mut missing = 0;
    for (name, part) in &parts {
        let (name, text) = match part {
            Ok(text) => (name.clone(), text.clone()),
            Err(error) => {
                missing += 1;
                out::note(format_args!("callboard: {name} is missing: {error:#}"));
                (format!("{name}.missing"), hider.text(&format!("{error:#}\n")).into_bytes())
            }
        };
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_cksum();
        archive.append_data(&mut header, format!("callboard-diagnose/{name}"), &text[..]).with_context(named)?;
    }
    archive.into_inner().and_then(GzEncoder::finish).and_then(|file| file.sync_all()).with_context(named)?;
    out::print(format_args!(
        "{} has {} parts; look through it before you give it away: names of queues, applications and nodes are in it\n",
        args.out.display(),
        parts.len() - missing
    ))?;
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The data directory of the server, as its settings name it; `None` where it has no logs there.
fn named_directory(settings: &str) -> Option<anyhow::Result<PathBuf>> {
    let settings: Value = serde_json::from_str(settings).ok()?;
    let options = settings["options"].as_array()?;
    let option = |name: &str| options.iter().find(|row| row["name"] == name)?["value"].as_str();
    let data = Path::new(option("data")?);
    if option("ephemeral") == Some("true") || option("cluster").is_some_and(|urls| !urls.is_empty()) {
        return None;
    }
    if data.is_absolute() && data.is_dir() {
        return data.join("log").is_dir().then(|| Ok(data.to_owned()));
    }
    let shown = data.display();
    Some(Err(anyhow!("the server's data directory {shown} is not on this machine: --data names it where it is")))
}

/// What happened of late, to be seen again with `callboard flight`, without names of people and applications. Whom it named is hidden in
/// the other parts, too.
fn flights(data: &Path, hider: &mut Hider) -> Vec<(String, anyhow::Result<Vec<u8>>)> {
    let from = Clock::default().now().minus(FLIGHT);
    let found = match flight::since(data, from) {
        Ok(found) => found,
        Err(error) => return vec![("flight".to_owned(), Err(error))],
    };
    let mut flights = Vec::new();
    for (rm, flight) in found {
        let flight = flight.map(|(flight, people)| {
            hider.meet(people);
            flight
        });
        flights.push((format!("{rm}.flight"), flight));
    }
    flights
}

async fn ask(client: &Client, server: &str, path: &str) -> anyhow::Result<String> {
    let answer = client
        .send(Method::GET, &format!("{server}{path}"), None)
        .await
        .map_err(|error| anyhow!("{server}: {error}"))?;
    let status = answer.status;
    let text = answer.text().await.map_err(|error| anyhow!("{server}: {error}"))?;
    // A server that is not ready says so with another status.
    if status.is_success() || path == "/readyz" { Ok(text) } else { Err(anyhow!("{path} answers {status}")) }
}

fn log(file: Option<&Path>) -> anyhow::Result<String> {
    let text = match file {
        Some(file) => fs::read(file).with_context(|| format!("--log {}", file.display()))?,
        None => {
            let lines = LINES.to_string();
            let journal = ["--unit", "callboard", "--lines", &lines, "--no-pager", "--output", "cat", "--quiet"];
            let done = Command::new("journalctl").args(journal).output().context("journalctl (--log names a file)")?;
            anyhow::ensure!(
                done.status.success() && !done.stdout.is_empty(),
                "no log of a service callboard: --log names a file"
            );
            done.stdout
        }
    };
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LINES)..].join("\n") + "\n")
}

/// Puts stand-ins in the place of what is nobody's business: the same one for the same thing within a bundle.
struct Hider {
    salt: uuid::Uuid,
    /// Whoever is named somewhere in the bundle, by that name and by those of queues that are made for it, and their metrics.
    people: BTreeMap<String, String>,
}

/// Keys of JSON, YAML and log lines whose values name people.
const KEYS: [&str; 10] =
    ["users", "groups", "adminacl", "submitacl", "user", "group", "username", "groupname", "by", "who"];

/// A name may have so many parts, of letters and digits, to be found within something longer.
const PARTS: usize = 16;

static PERSON: LazyLock<Regex> =
    LazyLock::new(|| made(&format!(r#"(?i)\b({})(=|\\?":\s*)(\\"[^"\\]+|"(?:[^"\\]|\\.)*)"#, KEYS.join("|"))));
/// The same without quotes, as in the summary of an application (`User: ann, Queue: …`), and lists of them.
static BARE: LazyLock<Regex> =
    LazyLock::new(|| made(r#"(?i)\b(user|group|username|groupname|by|who)(=|: )([^\s"'\\,;{}\[\]]+)"#));
static LIST: LazyLock<Regex> = LazyLock::new(|| made(r#"(?i)\b(users|groups)(=|: )\[([^\]]*)\]"#));
/// People in running text, such as `the token "ann" has the role viewer`.
static SAID: LazyLock<Regex> = LazyLock::new(|| made(r#"\b((?:token|user|group|by) (?:\\?"|'))([^"'\\]+)"#));
static ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| made(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b|\[[0-9a-fA-F:]*:[0-9a-fA-F:.]+\]"));

/// The names of a list as a log line has it.
fn names_in_list(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(|name| name.trim().trim_matches(['"', '\\'])).filter(|name| !name.is_empty())
}

impl Hider {
    fn new() -> Hider {
        Hider { salt: uuid::Uuid::new_v4(), people: BTreeMap::new() }
    }

    fn stand_in(&self, kind: &str, text: &str) -> String {
        let digest = Sha256::digest(format!("{}:{text}", self.salt));
        format!("{kind}-{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
    }

    /// Notes who is named in a part, so that the name is hidden in all of them, wherever it stands.
    fn learn(&mut self, text: &str) {
        let keyed = PERSON.captures_iter(text).map(|found| found[3].trim_start_matches(['\\', '"']).to_owned());
        let said = SAID.captures_iter(text).map(|found| found[2].to_owned());
        let bare = BARE.captures_iter(text).map(|found| found[3].to_owned());
        let lists =
            LIST.captures_iter(text).flat_map(|found| names_in_list(&found[3]).map(str::to_owned).collect::<Vec<_>>());
        let listed = people_of(text).into_iter().chain(bare).chain(lists);
        self.meet(keyed.chain(said).chain(listed));
    }

    /// Notes these names.
    fn meet(&mut self, people: impl IntoIterator<Item = String>) {
        let is_name = |name: &String| {
            let mut letters = name.chars();
            // One letter names nobody, and would be found in every other line.
            letters.nth(1).is_some() && !WORDS.contains(&&**name) && name.parse::<f64>().is_err()
        };
        for name in people.into_iter().filter(is_name) {
            let queue = queue_of(&name);
            let metric = queue.replace(|c: char| !c.is_alphanumeric() && c != ':', "_");
            for made in [queue, metric].into_iter().filter(is_name) {
                self.people.entry(made).or_insert_with(|| name.clone());
            }
            self.people.insert(name.clone(), name);
        }
    }

    /// A word such as an id with stand-ins for the names within it, the longest first; `None` where there are none.
    fn word(&self, word: &str) -> Option<String> {
        let begins = |(at, _): &(usize, char)| {
            let before = word[..*at].chars().next_back();
            word[*at..].starts_with(char::is_alphanumeric) && !before.is_some_and(char::is_alphanumeric)
        };
        let starts: Vec<usize> = word.char_indices().filter(begins).map(|(at, _)| at).collect();
        let end =
            |start: usize| start + word[start..].find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len() - start);
        let (mut out, mut told) = (String::new(), 0);
        for (nth, &from) in starts.iter().enumerate() {
            if from < told {
                continue;
            }
            let mut names = starts[nth..].iter().take(PARTS).rev().map(|last| &word[from..end(*last)]);
            if let Some((name, who)) = names.find_map(|name| Some((name, self.people.get(name)?))) {
                out += &word[told..from];
                out += &self.stand_in("name", who);
                told = from + name.len();
            }
        }
        (told > 0).then(|| out + &word[told..])
    }

    /// A text such as a log.
    fn text(&self, text: &str) -> String {
        let text = secrets::hidden(text, |_| "(secret)".to_owned());
        let text = PERSON.replace_all(&text, |found: &Captures<'_>| {
            let name = found[3].trim_start_matches(['\\', '"']);
            let quote = &found[3][..found[3].len() - name.len()];
            format!("{}{}{quote}{}", &found[1], &found[2], self.stand_in("name", name))
        });
        let text = LIST.replace_all(&text, |found: &Captures<'_>| {
            let names: Vec<String> = names_in_list(&found[3]).map(|name| self.stand_in("name", name)).collect();
            format!("{}{}[{}]", &found[1], &found[2], names.join(", "))
        });
        let text = BARE.replace_all(&text, |found: &Captures<'_>| {
            format!("{}{}{}", &found[1], &found[2], self.stand_in("name", &found[3]))
        });
        let text = SAID
            .replace_all(&text, |found: &Captures<'_>| format!("{}{}", &found[1], self.stand_in("name", &found[2])));
        let person = |word: &str| self.people.get(word).map(|who| self.stand_in("name", who));
        let whole = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '@' | '.' | ':' | '+');
        // Also within an id, as of who is called so.
        let named = |word: &str| person(word).or_else(|| self.word(word));
        let text = within(&text, whole, named).unwrap_or_else(|| text.into_owned());
        let local = ["127.0.0.1", "0.0.0.0"];
        let address = |found: &Captures<'_>| match &found[0] {
            known if local.contains(&known) => known.to_owned(),
            other => self.stand_in("address", other),
        };
        let text = ADDRESS.replace_all(&text, address);
        // Those of the newer protocol, without brackets.
        let part = |c: char| c.is_alphanumeric() || matches!(c, ':' | '.');
        let v6 = |word: &str| {
            let known = word.parse::<Ipv6Addr>().ok().filter(|known| !known.is_loopback() && !known.is_unspecified());
            known.map(|_| self.stand_in("address", word))
        };
        within(&text, part, v6).unwrap_or_else(|| text.into_owned())
    }

    fn hidden(&self, name: &str, text: &str) -> String {
        match serde_json::from_str::<Value>(text) {
            Ok(mut value) if name.ends_with(".json") => {
                self.people(&mut value);
                self.text(&serde_json::to_string_pretty(&value).unwrap_or_default())
            }
            // As YAML, in the form in which the server shows it.
            _ if name == "configuration.json" => self.text(&without(text, is_hidden)),
            _ => self.text(text),
        }
    }

    fn people(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if is_hidden(key) && !value.is_object() && !value.is_number() {
                        *value = Value::String("(left out)".to_owned());
                    } else {
                        self.people(value);
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.people(value)),
            _ => {}
        }
    }
}

fn is_hidden(key: &str) -> bool {
    let key = key.to_lowercase();
    KEYS.contains(&&*key) || key == DESCRIPTION
}

/// Who is named in lists and access lists, of a configuration or of JSON.
fn people_of(text: &str) -> Vec<String> {
    fn of(value: &Value, within: bool, found: &mut Vec<String>) {
        match value {
            Value::String(names) if within => found.extend(names_in(names)),
            Value::Array(list) => list.iter().for_each(|value| of(value, within, found)),
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                of(value, KEYS.contains(&&*key.to_lowercase()), found);
            }),
            _ => {}
        }
    }

    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str(text) {
        of(&value, false, &mut found);
        return found;
    }
    let mut of_people = false;
    for (line, hidden) in lines_of(text, is_hidden) {
        let line = line.trim_start().trim_start_matches("- ");
        let names = match hidden {
            Some(Hidden::Key) => {
                let (key, names) = line.split_once(':').unwrap_or_default();
                of_people = !key.eq_ignore_ascii_case(DESCRIPTION);
                names
            }
            Some(Hidden::More) => line,
            None => continue,
        };
        if of_people {
            found.extend(names_in(names));
        }
    }
    found
}

/// The names of an access list, or one name.
fn names_in(text: &str) -> impl Iterator<Item = String> {
    let between = |c: char| c.is_whitespace() || matches!(c, ',' | '"' | '\'' | '[' | ']');
    text.split(between).filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_that_cannot_be_read_is_told() {
        let named = |options: Value| {
            let row = |(name, value): (&String, &Value)| serde_json::json!({"name": name, "value": value});
            let rows: Vec<Value> = options.as_object().unwrap().iter().map(row).collect();
            named_directory(&serde_json::json!({"options": rows}).to_string())
        };
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().to_str().unwrap();
        assert!(named(serde_json::json!({"data": data})).is_none(), "it has no logs");
        fs::create_dir(dir.path().join("log")).unwrap();
        assert_eq!(named(serde_json::json!({"data": data})).unwrap().unwrap(), dir.path());
        assert!(named(serde_json::json!({"data": data, "ephemeral": "true"})).is_none());
        assert!(named(serde_json::json!({"data": data, "cluster": "http://etcd:2379"})).is_none());
        for elsewhere in ["/no/such/directory", "src"] {
            let error = named(serde_json::json!({"data": elsewhere})).unwrap().unwrap_err().to_string();
            assert!(error.contains(elsewhere) && error.contains("--data"), "{error}");
        }
    }

    #[test]
    fn nothing_that_is_nobodys_business_is_left() {
        let hider = Hider::new();
        let log = "Authorization: Bearer cbt_abc user=\"alice\" who=\"alice\" from 10.1.2.3:80 and [fe80::1]:90, 127.0.0.1:9080 \
                   sha256:9f86d0 endpoint=\"http://root:PW1@etcd.example:2379/x\" -----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----";
        let hidden = hider.text(log);
        for name in ["cbt_abc", "alice", "10.1.2.3", "fe80", "9f86d0", "PW1", "MII"] {
            assert!(!hidden.contains(name), "{name} is in {hidden}");
        }
        assert!(hidden.contains("127.0.0.1:9080") && hidden.contains("etcd.example:2379/x"), "{hidden}");
        assert_eq!(hider.stand_in("x", "a"), hider.stand_in("x", "a"));
        let log = "08:00:00.123Z YK_APP_SUMMARY: {ApplicationID: a, User: ivy, Queue: root.web, State: Completed} \
                   groups=[\"judges\", \"kings\"] user=leo by=mia callboard::access::issuer fd00::1:2, from 2001:db8::7 ::1";
        let hidden = hider.text(log);
        for name in ["ivy", "judges", "kings", "leo", "mia", "fd00", "2001"] {
            assert!(!hidden.contains(name), "{name} is in {hidden}");
        }
        for kept in ["08:00:00.123Z", "Queue: root.web, State: Completed", "callboard::access::issuer", " ::1"] {
            assert!(hidden.contains(kept), "{kept} is not in {hidden}");
        }
        let json =
            hider.hidden("x.json", r#"{"queues":[{"SubmitACL":"alice","Limits":[{"Users":["bob"]}],"name":"root"}]}"#);
        assert!(!json.contains("alice") && !json.contains("bob") && json.contains("root"), "{json}");
        let yaml = "queues:\n- name: root\n  submitacl: alice\n  limits:\n  - limit: x\n    users:\n    - bob\n    - eve\n    maxapplications: 1\n";
        let yaml = hider.hidden("configuration.json", yaml);
        assert!(!["alice", "bob", "eve"].iter().any(|name| yaml.contains(name)), "{yaml}");
        assert!(yaml.contains("maxapplications: 1") && yaml.contains("- name: root"), "{yaml}");
    }

    #[test]
    fn who_is_named_somewhere_is_hidden_everywhere() {
        let log = "queue: stopped by=\"oidc:alice@example.org\" reason=\"gone\"\n\
                   requests were refused: the token \"bob b\" has the role viewer\n\
                   {\"by\":\"carol\",\"message\":\"the token \\\"dave\\\" has the role viewer\"}\n\
                   2 asks or allocations were rejected: etl-jane.doe-7/x: no; erin-1/y: groups of user 'erin' not found\n\
                   told to oidc:alice@example.org, carol, dave and frank_f; a root, default";
        let yaml = "partitions:\n- name: default\n  queues:\n  - name: root\n    limits:\n    - limit: what gina may\n      users:\n      \
                    - jane.doe\n      maxapplications: 3\n    - limit: |\n        what\n\n        gina may\n      groups: [ops1]\n    adminacl: ' frank_f,x'\n";
        let mut hider = Hider::new();
        [log, yaml].iter().for_each(|text| hider.learn(text));
        let (log, yaml) = (hider.text(log), hider.hidden("configuration.json", yaml));
        let ids = hider.text("etl-jane.doe-7 (jane.doe_job) x:oidc:alice@example.org:1 frank_f_x janedoe xdave daves");
        assert_eq!(ids.matches("name-").count(), 4, "{ids}");
        assert!(ids.ends_with("janedoe xdave daves"), "{ids}");
        for name in ["alice", "bob", "carol", "dave", "erin", "frank", "gina", "jane", "ops1"] {
            assert!(!log.contains(name) && !yaml.contains(name), "{name} is in {log}\n{yaml}");
        }
        let queues = hider.text("root.jane_dot_doe x_root_oidc:alice_example_dot_org_y");
        let of = |name: &str| hider.stand_in("name", name);
        assert_eq!(queues, format!("root.{} x_root_{}_y", of("jane.doe"), of("oidc:alice@example.org")));
        assert!(log.contains("rejected: etl-name-") && log.ends_with("a root, default"), "{log}");
        assert!(
            yaml.contains("      maxapplications: 3\n    - limit: (left out)\n      groups: (left out)\n    adminacl:"),
            "{yaml}"
        );
        let json = r#"{"Limits":[{"Limit":"what gina may","Users":["hal","*"],"MaxApplications":1}],"limit":5}"#;
        let mut hider = Hider::new();
        hider.learn(json);
        let json = hider.hidden("configuration.json", json);
        assert!(!json.contains("gina") && !json.contains("hal") && json.contains("\"limit\": 5"), "{json}");
        assert_eq!(hider.text("of hal *"), format!("of {} *", hider.stand_in("name", "hal")));
    }
}
