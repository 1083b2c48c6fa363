//! Inputs that a target has found, small, and what they must do.

use narad_core::format::{AheadRecord, Offset};
use narad_fuzz::{
    dir_harm::{DirHarm, Number},
    directory::{Directory, Entry, Source, Start},
};

use crate::{open, position};

fn harmed(start: &str, harms: &[DirHarm]) -> Directory {
    let mut directory = Start::named(start).directory();
    harms.iter().for_each(|harm| harm.apply(&mut directory));
    directory
}

#[test]
fn a_foreign_newest_segment_named_below_the_end_hides_nothing_after_a_commit() {
    let foreign = harmed("clean_none", &[DirHarm::Adopt(Source(114), Number::Small(12))]);
    open::check_directory(&foreign);
}

#[test]
fn two_segments_with_each_others_names_lose_nothing_more_with_a_commit() {
    let swapped = harmed("retention_trimmed_none", &[DirHarm::SwapNames(1, 2)]);
    open::check_directory(&swapped);
}

#[test]
fn the_largest_sequence_in_consumer_ahead_does_not_stop_the_next_position() {
    let record = AheadRecord { sequence: u64::MAX, frontier: Offset::new(3), acked: Vec::new() };
    let mut directory = Start::named("hwm_empty").directory();
    directory.0.insert("consumer.ahead".to_owned(), Entry::File(record.encode().0.to_vec()));
    position::check_directory(&directory);
}

#[test]
fn a_directory_with_the_name_of_the_next_segment_fails_the_commit_alone() {
    open::check_directory(&harmed("consumer_offset_bad", &[DirHarm::NoFile(0, true)]));
}
