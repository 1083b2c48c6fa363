//! Policies of policies: what any of them lets go, and what all of them do.

use std::{sync::Arc, time::Duration};

use narad_core::plugin::{RetentionDecision, RetentionPolicy, RetentionView};

/// Nothing can be combined of no policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("of: name at least one policy")]
pub struct NoPolicies;

/// Expires what any of its policies expires: the one that lets most go decides, and the reason is its own.
///
/// Of age and size, for example: nothing older than a week, and no more than ten gibibytes. A segment rolls at the
/// shortest of the policies' roll ages, so that each keeps its promise of when a record goes.
#[derive(Debug, Clone)]
pub struct Any(Vec<Arc<dyn RetentionPolicy>>);

impl Any {
    /// What any of `policies` lets go.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(policies: Vec<Arc<dyn RetentionPolicy>>) -> Result<Self, NoPolicies> {
        if policies.is_empty() { Err(NoPolicies) } else { Ok(Self(policies)) }
    }
}

impl RetentionPolicy for Any {
    fn name(&self) -> &str {
        "any"
    }

    fn roll_age(&self) -> Option<Duration> {
        self.0.iter().filter_map(|policy| policy.roll_age()).min()
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let decisions = decisions(&self.0, view);
        // Of equals the first one: it is what the reason is taken from.
        let most = decisions.reduce(|most, next| if next.expire > most.expire { next } else { most });
        most.filter(|most| most.expire > 0).unwrap_or(RetentionDecision::KEEP)
    }
}

/// Expires what all of its policies expire: the one that keeps most decides, and the reason is its own.
///
/// Of consumption and age, for example: what is consumed goes, but not within an hour. A segment rolls at the longest of
/// the policies' roll ages: before it, they would not all let its records go anyway.
#[derive(Debug, Clone)]
pub struct All(Vec<Arc<dyn RetentionPolicy>>);

impl All {
    /// What all of `policies` let go.
    ///
    /// # Errors
    /// When there is none: all of none would take everything.
    pub fn new(policies: Vec<Arc<dyn RetentionPolicy>>) -> Result<Self, NoPolicies> {
        if policies.is_empty() { Err(NoPolicies) } else { Ok(Self(policies)) }
    }
}

impl RetentionPolicy for All {
    fn name(&self) -> &str {
        "all"
    }

    fn roll_age(&self) -> Option<Duration> {
        self.0.iter().filter_map(|policy| policy.roll_age()).max()
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let decisions = decisions(&self.0, view);
        let least = decisions.reduce(|least, next| if next.expire < least.expire { next } else { least });
        least.filter(|least| least.expire > 0).unwrap_or(RetentionDecision::KEEP)
    }
}

/// What each policy says; more segments than there are count as all of them.
fn decisions(
    policies: &[Arc<dyn RetentionPolicy>],
    view: &RetentionView<'_>,
) -> impl Iterator<Item = RetentionDecision> {
    policies.iter().map(|policy| {
        let decision = policy.decide(view);
        RetentionDecision::expire(decision.expire.min(view.segments.len()), decision.reason)
    })
}
