//! Takes names and paths out of a report, so that it can be shown to strangers.

use super::facts::{Facts, Known};

/// What is replaced by what, longest first.
#[derive(Debug)]
pub(super) struct Redaction(Vec<(String, String)>);

impl Redaction {
    /// That of everything which the facts name: `topic-1`, `topic-2`, ... in the order of the names.
    pub(super) fn of(facts: &Facts) -> Self {
        let topics = facts.topics.iter().zip(1..);
        let mut names: Vec<_> =
            topics.map(|(topic, number)| (topic.name.clone(), format!("topic-{number}"))).collect();
        names.extend(facts.node.iter().map(|node| (node.clone(), "node-1".to_owned())));
        // A name that is part of another must not be replaced in it.
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Self(names)
    }

    /// Replaces everything.
    pub(super) fn apply(&self, facts: &mut Facts) {
        for topic in &mut facts.topics {
            topic.name = self.whole(&topic.name);
            topic.not_ok.iter_mut().for_each(|line| *line = self.text(line));
        }
        facts.node = facts.node.take().map(|node| self.whole(&node));
        facts.ready = self.text(&facts.ready);
        facts.degraded.iter_mut().for_each(|line| *line = self.text(line));
        if let Known::Not(why) = &mut facts.metrics {
            *why = self.text(why);
        }
    }

    fn whole(&self, name: &str) -> String {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or_else(|| "-".to_owned(), |(_, shown)| shown.clone())
    }

    /// Names within a text, where they stand alone, and what looks like a path or a URL.
    fn text(&self, text: &str) -> String {
        let words = text.split_inclusive(char::is_whitespace);
        words.map(|word| if is_place(word) { place(word) } else { self.names_in(word) }).collect()
    }

    fn names_in(&self, word: &str) -> String {
        let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let mut out = String::with_capacity(word.len());
        let mut rest = word;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !belongs(c)).unwrap_or(rest.len());
            let (run, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            // What ends a sentence is no part of the name.
            let name = run.trim_end_matches('.');
            match self.0.iter().find(|(known, _)| known == run || known == name) {
                Some((known, shown)) => {
                    out.push_str(shown);
                    out.push_str(run.strip_prefix(known.as_str()).unwrap_or_default());
                }
                None => out.push_str(run),
            }
            let mut characters = after.chars();
            out.extend(characters.next());
            rest = characters.as_str();
        }
        out
    }
}

fn is_place(word: &str) -> bool {
    let bare = word.trim_start_matches(['"', '\'', '(', '`']);
    bare.starts_with('/') || bare.contains("://")
}

/// The place's blank, and what follows it in the word.
fn place(word: &str) -> String {
    let tail: String = word.chars().rev().take_while(|c| c.is_whitespace() || *c == ':').collect();
    format!("[path]{}", tail.chars().rev().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_go_and_the_rest_stays() {
        let redaction = Redaction(vec![
            ("orders-eu".to_owned(), "topic-2".to_owned()),
            ("orders".to_owned(), "topic-1".to_owned()),
        ]);
        assert_eq!(
            redaction.text(
                "orders/0: open /srv/narad/topics/orders/p00000: no such file; orders-eu and reorders."
            ),
            "topic-1/0: open [path]: no such file; topic-2 and reorders."
        );
        assert_eq!(
            redaction.text("no answer from http://me:1/x: (orders)."),
            "no answer from [path]: (topic-1)."
        );
    }
}
