//! Where keys come from, and what is refused; and that no error repeats what it read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use narad_codec_aead::{KeyError, KeyProblem, KeyRing, KeySource};
use support::{ONE, TWO};
use tempfile::TempDir;

fn file(content: &[u8], mode: u32) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    (dir, path)
}

fn problem(text: &str) -> KeyProblem {
    match KeyRing::parse(text).unwrap_err() {
        KeyError::Text(problem) => {
            let shown = format!("{problem} {problem:?}");
            for part in text.split([':', '\n', ',']).filter(|part| part.len() > 12) {
                assert!(!shown.contains(part), "{shown} repeats {part}");
            }
            problem
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_last_key_of_a_text_encrypts() {
    let text = format!("# of May\n{ONE}\n\n  # of June\r\n {TWO} \n");
    let ring = KeyRing::parse(&text).unwrap();
    assert_eq!((ring.active(), ring.ids().collect::<Vec<_>>()), (2, vec![1, 2]));
    let ring = KeyRing::parse(&format!("{TWO},{ONE}")).unwrap();
    assert_eq!((ring.active(), ring.ids().count()), (1, 2));
    assert_eq!(ring.with_active(2).unwrap().active(), 2);
}

#[test]
fn what_is_no_key_is_refused_by_its_line() {
    let short = "c2hvcnQ=";
    let long = "A".repeat(44);
    let longer = "A".repeat(400);
    for (text, expected) in [
        (String::new(), KeyProblem::Empty),
        ("# nothing\n\n".to_owned(), KeyProblem::Empty),
        (ONE[2..].to_owned(), KeyProblem::NoColon { line: 1 }),
        (format!("{ONE}\nx{TWO}"), KeyProblem::Number { line: 2 }),
        (format!("0{}", &ONE[1..]), KeyProblem::Number { line: 1 }),
        (format!("4294967296{}", &ONE[1..]), KeyProblem::Number { line: 1 }),
        (format!("{ONE}\n{ONE}"), KeyProblem::Twice { line: 2, id: 1 }),
        (format!("3:{short}"), KeyProblem::Length { line: 1, id: 3 }),
        (format!("3:{long}"), KeyProblem::Length { line: 1, id: 3 }),
        (format!("3:{longer}"), KeyProblem::Length { line: 1, id: 3 }),
        ("3:".to_owned(), KeyProblem::Length { line: 1, id: 3 }),
        (ONE.replace('=', ""), KeyProblem::Encoding { line: 1, id: 1 }),
        (ONE.replace("b24=", "b2?="), KeyProblem::Encoding { line: 1, id: 1 }),
        (ONE.replace("b25", "b2é"), KeyProblem::Encoding { line: 1, id: 1 }),
    ] {
        assert_eq!(problem(&text), expected, "{text}");
    }
}

#[test]
fn a_file_is_read_that_its_owner_alone_can_read() {
    for mode in [0o600, 0o400] {
        let (_dir, path) = file(ONE.as_bytes(), mode);
        assert_eq!(KeySource::File(path).read().unwrap().active(), 1);
    }
    for mode in [0o644, 0o640, 0o604, 0o620, 0o602, 0o610, 0o601] {
        let (_dir, path) = file(ONE.as_bytes(), mode);
        let error = KeyRing::from_file(&path).unwrap_err();
        assert!(matches!(&error, KeyError::Exposed { mode: found, .. } if *found == mode), "{error}");
        let shown = error.to_string();
        assert!(shown.contains(path.to_str().unwrap()) && shown.contains(&format!("{mode:04o}")), "{shown}");
    }
}

#[test]
fn a_file_that_cannot_be_one_of_keys_is_refused_by_name() {
    let (dir, path) = file(b"1:\xFF\xFE", 0o600);
    let shown = KeyRing::from_file(&path).unwrap_err().to_string();
    assert!(shown.contains("keys: it is not text"), "{shown}");
    fs::write(&path, vec![b'#'; (64 << 10) + 1]).unwrap();
    assert!(matches!(KeyRing::from_file(&path), Err(KeyError::File { problem: KeyProblem::TooLarge, .. })));
    fs::write(&path, b"").unwrap();
    assert!(matches!(KeyRing::from_file(&path), Err(KeyError::File { problem: KeyProblem::Empty, .. })));
    // A file to the eye, whose read waits until the kernel has something to say.
    let kernel = PathBuf::from("/proc/kmsg");
    if kernel.exists() {
        assert!(KeyRing::from_file(&kernel).is_err());
    }
    let missing = dir.path().join("missing");
    assert!(
        matches!(KeyRing::from_file(&missing), Err(KeyError::Unreadable { path, .. }) if path == missing)
    );
    let directory = KeyRing::from_file(dir.path());
    assert!(matches!(directory, Err(KeyError::File { problem: KeyProblem::NotAFile, .. })));
    let fifo = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success());
    if made {
        let refused = KeyRing::from_file(&fifo);
        assert!(
            matches!(refused, Err(KeyError::File { problem: KeyProblem::NotAFile, .. })),
            "and nobody waits"
        );
    }
}

#[test]
fn a_variable_that_is_not_set_is_named() {
    let error = KeySource::Env("NARAD_TEST_KEYS_OF_NOBODY".to_owned()).read().unwrap_err();
    assert_eq!(error.to_string(), "environment variable NARAD_TEST_KEYS_OF_NOBODY: it is not set");
}

#[test]
fn a_key_for_new_frames_must_be_there() {
    let error = KeyRing::parse(ONE).unwrap().with_active(7).unwrap_err();
    assert_eq!(error.to_string(), "key 7 is to encrypt new frames and is not there; there are [1]");
}
