//! Examples of a manual: commands in `console` blocks, each followed by the answer that it gets.
//!
//! ````text
//! ```console
//! $ curl -i -d '{"name":"orders"}' http://127.0.0.1:7942/v1/topics
//! HTTP/1.1 201 Created
//!
//! {"name":"orders","id":"<id>","created_at":<seconds>}
//! ```
//! ````
//!
//! A command begins with `$ ` and goes on after a `\` at the end of a line. It asks for headers (`-i`), and its answer is the
//! status line, those headers that matter, and after an empty line the body. JSON is compared as such, every field of it;
//! `<word>` stands for any one value, quoted or bare, which later commands find in `$word`. A body that is no JSON must
//! contain each of the lines, and `...` stands for any body.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::Value;

/// Where the manual's broker listens.
pub const ADDRESS: &str = "127.0.0.1:7942";

/// A command and its answer.
#[derive(Debug, Clone)]
pub struct Example {
    /// Where it begins in the manual.
    pub line: usize,
    pub command: String,
    pub answer: String,
}

/// The blocks of `manual` whose fence says `info`, with the line on which each begins.
pub fn blocks(manual: &str, info: &str) -> Vec<(usize, String)> {
    let (mut blocks, mut open): (Vec<(usize, String)>, Option<bool>) = (Vec::new(), None);
    for (number, line) in (1..).zip(manual.lines()) {
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(said), None) => {
                let wanted = said.trim() == info;
                open = Some(wanted);
                if wanted {
                    blocks.push((number + 1, String::new()));
                }
            }
            (Some(_), Some(_)) => open = None,
            (None, Some(true)) => {
                let (_, text) = blocks.last_mut().unwrap();
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    blocks
}

/// Every example of `manual`, in order.
pub fn examples(manual: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for (first, block) in blocks(manual, "console") {
        let mut continued = false;
        for (line, text) in (first..).zip(block.lines()) {
            if let Some(command) = text.strip_prefix("$ ") {
                examples.push(Example { line, command: command.to_owned(), answer: String::new() });
            } else {
                let example = examples.last_mut().expect("a console block begins with a command");
                let to = if continued { &mut example.command } else { &mut example.answer };
                to.push_str(text);
                to.push('\n');
            }
            continued = text.ends_with('\\') && (continued || text.starts_with("$ "));
            if continued {
                examples.last_mut().unwrap().command.push('\n');
            }
        }
    }
    examples
}

impl Example {
    /// The method and the path without its query.
    pub fn request(&self) -> (String, String) {
        let words: Vec<&str> = self.command.split_whitespace().collect();
        let explicit = words.windows(2).find(|pair| pair[0] == "-X").map(|pair| pair[1]);
        let has_body = words.iter().any(|word| word.starts_with("-d") || word.starts_with("--data"));
        let method = explicit.unwrap_or(if has_body { "POST" } else { "GET" });
        let at = self.command.find(ADDRESS).unwrap_or_else(|| panic!("line {}: no address", self.line));
        let rest = &self.command[at + ADDRESS.len()..];
        let end = rest.find(|c: char| c.is_whitespace() || "?'\"".contains(c)).unwrap_or(rest.len());
        (method.to_owned(), rest[..end].to_owned())
    }

    /// Runs the command against the broker at `address` and compares the answers. What the placeholders stood for is put into
    /// `known`, which the command finds in its environment.
    #[track_caller]
    pub fn check(&self, address: &str, dir: &Path, known: &mut BTreeMap<String, String>) {
        let command = self.command.replace(ADDRESS, address);
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(dir).envs(&*known);
        let ran = shell.output().unwrap();
        let (said, complaints) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        let fail = |why: String| -> ! {
            panic!("line {}: {why}\n$ {command}\n{said}\n{complaints}\nexpected:\n{}", self.line, self.answer)
        };
        let (head, body) = halves(&said);
        let (wanted_head, wanted_body) = halves(&self.answer);
        let headers: Vec<String> = head.lines().map(|line| line.trim().to_lowercase()).collect();
        for line in wanted_head.lines().map(|line| line.trim().to_lowercase()) {
            if !headers.contains(&line) {
                fail(format!("no {line}"));
            }
        }
        if !wanted_head.starts_with("HTTP/1.1 ") {
            fail("the manual states no status; use curl -i".to_owned());
        }
        if let Err(why) = same_body(wanted_body.trim(), body.trim(), known) {
            fail(why);
        }
    }
}

/// The head and the body of an answer.
fn halves(answer: &str) -> (String, String) {
    let answer = answer.replace("\r\n", "\n");
    let (head, body) = answer.split_once("\n\n").unwrap_or((&answer, ""));
    (head.to_owned(), body.to_owned())
}

/// Whether `found` is what the manual states as `wanted`, and if not, why not.
pub fn same_body(wanted: &str, found: &str, known: &mut BTreeMap<String, String>) -> Result<(), String> {
    if wanted == "..." {
        return Ok(());
    }
    let json = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (json(&quoted(wanted)), json(found)) {
        (Some(wanted), Some(found)) => same(&wanted, &found, "", known),
        _ if wanted.is_empty() != found.is_empty() => Err("one body is empty".to_owned()),
        _ => {
            let missing =
                wanted.lines().find(|line| *line != "..." && !found.lines().any(|other| other == *line));
            missing.map_or(Ok(()), |line| Err(format!("the body has no line {line}")))
        }
    }
}

/// `wanted` with quotes around its bare placeholders.
fn quoted(wanted: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::new(), false, false);
    for character in wanted.chars() {
        match character {
            '"' if !escaped => in_string = !in_string,
            '<' if !in_string => out.push('"'),
            _ => {}
        }
        escaped = character == '\\' && !escaped;
        out.push(character);
        if character == '>' && !in_string {
            out.push('"');
        }
    }
    out
}

fn same(wanted: &Value, found: &Value, at: &str, known: &mut BTreeMap<String, String>) -> Result<(), String> {
    let placeholder = wanted.as_str().and_then(|text| text.strip_prefix('<')?.strip_suffix('>'));
    match (placeholder, wanted, found) {
        (Some(_), _, Value::Array(_) | Value::Object(_)) => Err(format!("{at} is no single value")),
        (Some(name), ..) => {
            let value = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            known.insert(name.to_owned(), value);
            Ok(())
        }
        (None, Value::Object(wanted), Value::Object(found)) => {
            if let Some(field) = found.keys().find(|field| !wanted.contains_key(*field)) {
                return Err(format!("{at}/{field} is not in the manual"));
            }
            wanted.iter().try_for_each(|(field, value)| match found.get(field) {
                Some(other) => same(value, other, &format!("{at}/{field}"), known),
                None => Err(format!("{at}/{field} is not in the answer")),
            })
        }
        (None, Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            let pairs = wanted.iter().zip(found);
            pairs.enumerate().try_for_each(|(index, (a, b))| same(a, b, &format!("{at}/{index}"), known))
        }
        _ if wanted == found => Ok(()),
        _ => Err(format!("{at} is {found}")),
    }
}

/// Whether `program` can be run; says so when it cannot.
pub fn can_run(program: &str) -> bool {
    let runs = Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !runs {
        eprintln!("skipped: there is no {program} on this machine");
    }
    runs
}
