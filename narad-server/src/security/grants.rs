//! Grants: which are well formed, and which topics a pattern matches.

use crate::meta::{Action, Grant};

/// Patterns of one user, at most.
const MAX_PATTERNS: usize = 1000;
/// A pattern's bytes, at most.
const MAX_PATTERN_BYTES: usize = 255;

/// Why grants cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// Another action without any.
    #[error("{0} needs at least one pattern")]
    NoPatterns(&'static str),
    /// What cannot match a topic's name.
    #[error("\"{0}\" is no pattern: a name of A-Z a-z 0-9 . _ -, or a prefix of one that ends in *")]
    Pattern(String),
    /// More than a user may have.
    #[error("at most {MAX_PATTERNS} patterns")]
    TooMany,
}

/// Whether a user may have these grants.
///
/// # Errors
/// The first thing found wrong.
pub fn check(grants: &[Grant]) -> Result<(), GrantError> {
    // A grant counts as a pattern more, so that their number is bounded as well.
    if grants.iter().map(|grant| grant.patterns.len().max(1)).sum::<usize>() > MAX_PATTERNS {
        return Err(GrantError::TooMany);
    }
    for grant in grants {
        // Clients that know no action without patterns send some with `admin` too; it is leave to do everything anyway.
        if grant.patterns.is_empty() && grant.action != Action::Admin {
            return Err(GrantError::NoPatterns(name_of(grant.action)));
        }
        if let Some(pattern) = grant.patterns.iter().find(|pattern| !is_pattern(pattern)) {
            return Err(GrantError::Pattern(pattern.chars().take(MAX_PATTERN_BYTES).collect()));
        }
    }
    Ok(())
}

/// An action as requests and errors name it.
pub(super) fn name_of(action: Action) -> &'static str {
    match action {
        Action::Produce => "produce",
        Action::Consume => "consume",
        Action::Create => "create",
        Action::Admin => "admin",
    }
}

fn is_pattern(text: &str) -> bool {
    let name = text.strip_suffix('*').unwrap_or(text);
    (1..=MAX_PATTERN_BYTES).contains(&text.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Whether `grant` is about the topic.
pub(super) fn matches(grant: &Grant, topic: &str) -> bool {
    grant.patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => topic.starts_with(prefix),
        None => topic == pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(action: Action, patterns: &[&str]) -> Grant {
        Grant { action, patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect() }
    }

    #[test]
    fn a_pattern_is_a_name_or_a_prefix() {
        for (pattern, topic, is_it) in [
            ("orders", "orders", true),
            ("orders", "orders-eu", false),
            ("orders", "Orders", false),
            ("orders-*", "orders-eu", true),
            ("orders-*", "orders-", true),
            ("orders-*", "orders", false),
            ("*", "anything", true),
        ] {
            assert_eq!(matches(&grant(Action::Produce, &[pattern]), topic), is_it, "{pattern} {topic}");
        }
    }

    #[test]
    fn what_is_no_grant_is_refused_and_named() {
        assert_eq!(check(&[grant(Action::Admin, &[]), grant(Action::Create, &["a", "b.*", "*"])]), Ok(()));
        assert_eq!(check(&[grant(Action::Admin, &["*"])]), Ok(()));
        assert_eq!(check(&[grant(Action::Consume, &[])]), Err(GrantError::NoPatterns("consume")));
        for pattern in ["", "**", "a*b", "*a", "a/b", "ä*", &"x".repeat(256)] {
            let refused = check(&[grant(Action::Produce, &["fine", pattern])]);
            assert!(matches!(refused, Err(GrantError::Pattern(_))), "{pattern}");
        }
        assert_eq!(check(&vec![grant(Action::Admin, &[]); 1001]), Err(GrantError::TooMany));
    }
}
