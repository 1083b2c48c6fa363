//! Whoever asks for something, and what they may do. Every rule about topics is here, once.

use std::sync::Arc;

use super::grants::{matches, name_of};
use crate::meta::{Action, Topic, User};

/// Whoever asks: a user that has shown its password, or anybody while security is off.
#[derive(Debug, Clone)]
pub struct Caller(Option<Arc<User>>);

impl Caller {
    /// Somebody, while security is off: may do everything.
    pub fn anybody() -> Self {
        Self(None)
    }

    /// A user that has shown its password.
    pub fn user(user: Arc<User>) -> Self {
        Self(Some(user))
    }

    /// Its name; none while security is off. What it creates is owned by that.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.0.as_ref().map(|user| &user.name)
    }

    /// Whether it is `name`.
    pub fn is(&self, name: &str) -> bool {
        self.name().is_some_and(|own| **own == *name)
    }

    /// Whether it is the user of the first start, or anybody while security is off.
    pub fn is_root(&self) -> bool {
        self.0.as_ref().is_none_or(|user| user.root)
    }

    /// Whether it may do everything but what root alone may.
    pub fn is_admin(&self) -> bool {
        self.is_root() || self.grants(|action| action == Action::Admin)
    }

    /// Whether a grant lets it do that with the topic of that name, whether there is one or not. To own the topic is not
    /// enough: who fills a queue need not be able to empty it.
    pub fn may(&self, action: Action, topic: &str) -> bool {
        let granted = |user: &Arc<User>| {
            user.grants.iter().any(|grant| grant.action == action && matches(grant, topic))
        };
        self.is_admin() || self.0.as_ref().is_some_and(granted)
    }

    /// Whether it may change, delete and link the topic: it is the owner, or an admin. To attach a child it must own
    /// both topics, to detach one of either.
    pub fn owns(&self, topic: &Topic) -> bool {
        self.is_admin() || topic.owner.as_deref().is_some_and(|owner| self.is(owner))
    }

    /// Whether it may look at the topic, its schema and its children: any grant that matches will do.
    pub fn may_see(&self, topic: &Topic) -> bool {
        let concerned = |user: &Arc<User>| user.grants.iter().any(|grant| matches(grant, &topic.name));
        self.owns(topic) || self.0.as_ref().is_some_and(concerned)
    }

    /// What a refusal says when [`may`](Self::may) is false.
    pub fn lacks(&self, action: Action, topic: &str) -> String {
        let name = self.name().map(|name| &**name).unwrap_or_default();
        format!("user {name} has no grant to {} {topic}", name_of(action))
    }

    fn grants(&self, wanted: impl Fn(Action) -> bool) -> bool {
        self.0.as_ref().is_some_and(|user| user.grants.iter().any(|grant| wanted(grant.action)))
    }
}

#[cfg(test)]
mod tests {
    use narad_core::plugin::Incarnation;

    use super::*;
    use crate::meta::{Grant, PasswordHash, TopicName, UserName};

    fn caller(grants: &[(Action, &[&str])]) -> Caller {
        let mut user = User::new(UserName::new("ann").unwrap(), PasswordHash::new(""), 0);
        user.grants = grants
            .iter()
            .map(|(action, patterns)| Grant {
                action: *action,
                patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
            })
            .collect();
        Caller::user(Arc::new(user))
    }

    fn topic(name: &str, owner: Option<&str>) -> Topic {
        let mut topic = Topic::new(TopicName::new(name).unwrap(), Incarnation::new(1), 3, 0);
        topic.owner = owner.map(Into::into);
        topic
    }

    #[test]
    fn each_action_takes_its_own_grant_and_owning_is_none() {
        let actions = [Action::Produce, Action::Consume, Action::Create];
        for granted in actions {
            let caller = caller(&[(granted, &["t", "p-*"])]);
            for asked in actions {
                for (name, matching) in [("t", true), ("p-1", true), ("other", false)] {
                    assert_eq!(
                        caller.may(asked, name),
                        asked == granted && matching,
                        "{granted:?} {asked:?} {name}"
                    );
                }
            }
            assert!(!caller.owns(&topic("t", None)) && !caller.owns(&topic("t", Some("bob"))));
            assert!(caller.may_see(&topic("t", None)) && caller.may_see(&topic("p-2", Some("bob"))));
            assert!(!caller.may_see(&topic("x", Some("bob"))));
        }
        let (owner, owned) = (caller(&[]), topic("t", Some("ann")));
        assert!(owner.owns(&owned) && owner.may_see(&owned));
        assert!(!owner.is_admin() && actions.iter().all(|&action| !owner.may(action, "t")));
    }

    #[test]
    fn an_admin_may_everything_but_is_not_root() {
        let admin = caller(&[(Action::Admin, &[])]);
        assert!(admin.is_admin() && !admin.is_root());
        assert!(admin.may(Action::Produce, "t") && admin.owns(&topic("t", Some("bob"))));
        assert!(Caller::anybody().is_root() && Caller::anybody().may(Action::Create, "t"));
    }
}
