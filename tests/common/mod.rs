//! What the tests of the doors and those of conformance share: the built program as they start it, and tools that a machine
//! may lack.

use std::{
    env,
    ffi::OsString,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// Longest time that anything may take: on a busy machine things take their time, and what never comes is a fault.
pub const LIMIT: Duration = Duration::from_secs(180);

/// The program with these arguments, untouched by the environment of the test.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in env::vars_os() {
        if ["CALLBOARD_", "OTEL_"].iter().any(|begin| name.to_string_lossy().starts_with(begin)) {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_LOG").env_remove("DISABLE_RESERVATION");
    command
}

/// The built program, unless the environment names another.
fn program() -> OsString {
    env::var_os("CONFORMANCE_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_callboard").into())
}

/// A running server; killed when it is dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// The line with which it says that it is ready.
    pub ready: String,
    log: tempfile::TempPath,
}

impl Program {
    /// `serve` with these arguments, on any free port of HTTP where they say nothing else.
    pub fn start(args: &[&str]) -> Program {
        Program::try_start(serve(args)).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Starts a command and waits until it is ready. Its log is kept.
    pub fn try_start(mut command: Command) -> Result<Program, String> {
        let log = tempfile::NamedTempFile::new().map_err(|error| format!("no file for the server's log: {error}"))?;
        let stderr = log.reopen().map_err(|error| format!("no file for the server's log: {error}"))?;
        let started = command.stdout(Stdio::piped()).stderr(stderr).spawn();
        let mut child = started.map_err(|error| format!("the server does not start: {error}"))?;
        let stdout = child.stdout.take();
        let mut program = Program { child, ready: String::new(), log: log.into_temp_path() };
        let (tell, told) = mpsc::channel();
        // To its end: whatever else it prints must not fill the pipe.
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout.expect("piped")).lines().map_while(Result::ok);
            lines.filter(|line| line.starts_with("callboard ready ")).for_each(|line| drop(tell.send(line)));
        });
        match told.recv_timeout(LIMIT) {
            Ok(line) => program.ready = line,
            Err(_) => {
                let ended =
                    program.ended_with().map_or("was not ready in time".to_owned(), |how| format!("ended: {how}"));
                return Err(format!("the server {ended}\n{}", program.log_tail()));
            }
        }
        Ok(program)
    }

    /// Address of a door, of `http` or `grpc`, with its scheme.
    pub fn address(&self, door: &str) -> String {
        let found = self.ready.split(' ').find_map(|word| word.strip_prefix(&format!("{door}=")));
        let found = found.expect("the door is open");
        if found.contains("://") { found.to_owned() } else { format!("http://{found}") }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Kills it, and returns when nothing of it is left.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it ends by itself; gives its exit status, and kills it where it does not end.
    pub async fn ended(mut self) -> Option<i32> {
        let pid = self.pid().to_string();
        let waiting = tokio::task::spawn_blocking(move || self.child.wait().expect("a child").code());
        tokio::time::timeout(LIMIT, waiting)
            .await
            .unwrap_or_else(|_| {
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
                panic!("the server does not end")
            })
            .expect("waited for")
    }

    /// How it ended, where it did.
    pub fn ended_with(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Everything it logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        // To look into what went wrong.
        if let Some(dir) = env::var_os("CALLBOARD_TEST_LOGS") {
            let _ = std::fs::copy(&self.log, std::path::Path::new(&dir).join(format!("{}.log", self.pid())));
        }
    }
}

/// `serve` as a command: arguments win over what tests want where they say nothing.
pub fn serve(args: &[&str]) -> Command {
    let says = |option: &str| args.contains(&option);
    let mut all = vec!["serve"];
    if !says("--data") && !says("--ephemeral") {
        all.push("--ephemeral");
    }
    if !says("--http") {
        all.extend(["--http", "127.0.0.1:0"]);
    }
    if !says("--grpc") {
        all.extend(["--grpc", "127.0.0.1:0"]);
    }
    if !says("--first-request-timeout") {
        // A busy machine may take longer than ten seconds until it reads what was sent.
        all.extend(["--first-request-timeout", "60s"]);
    }
    all.extend(args);
    command(&all)
}

/// Asks until it is so.
pub async fn until(mut so: impl AsyncFnMut() -> bool) {
    let asked = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, asked).await.expect("in time");
}

/// Asks until the answer is as wanted, and gives it.
pub async fn answer<T: std::fmt::Debug>(what: &str, mut ask: impl AsyncFnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        let answer = ask().await;
        if wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "{what} stays {answer:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A test is left out because this machine lacks something, which is said. Where `CI` is `true` it fails: nothing passes there
/// by not running.
pub fn skip(test: &str, lacks: &str) {
    assert!(
        env::var_os("CI").is_none_or(|ci| ci != "true"),
        "{test}: {lacks}, and with CI=true everything has to be there"
    );
    // Past the test harness, which shows nothing of tests that pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {lacks}");
}

/// The same of what the kernel may forbid, for which no package helps: `.ci/run` has tried it, says it, and sets this variable.
pub fn skip_forbidden(test: &str, variable: &str, lacks: &str) {
    if env::var_os(variable).is_none() {
        skip(test, lacks);
    }
}
