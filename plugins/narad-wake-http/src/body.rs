//! The body of a notification.

use narad_core::plugin::PartitionId;
use serde::Serialize;

use crate::pending::Pending;

#[derive(Serialize)]
struct Body<'a> {
    from: &'a str,
    topics: Vec<Topic<'a>>,
    more: bool,
}

#[derive(Serialize)]
struct Topic<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    partitions: Vec<PartitionId>,
}

/// The JSON that says what is pending.
pub(crate) fn of(from: &str, pending: &Pending) -> serde_json::Result<Vec<u8>> {
    let topics = pending.topics().map(|(topic, partitions)| Topic {
        name: &topic.name,
        id: topic.incarnation.map(|id| id.to_string()),
        partitions: partitions.iter().copied().collect(),
    });
    serde_json::to_vec(&Body { from, topics: topics.collect(), more: pending.has_more() })
}

#[cfg(test)]
mod tests {
    use narad_core::plugin::{Incarnation, LogIdentity};

    use super::*;

    #[test]
    fn a_body_is_as_the_documentation_has_it() {
        let mut pending = Pending::default();
        for partition in [2, 0] {
            let log = LogIdentity::partition("orders", Incarnation::new(0xdead_beef), PartitionId(partition));
            pending.add(&log, 3);
        }
        pending.add(&LogIdentity::named("alone"), 3);
        pending.add(&LogIdentity::named("one too many"), 3);
        let body = String::from_utf8(of("broker-1", &pending).unwrap()).unwrap();
        assert_eq!(
            body,
            r#"{"from":"broker-1","topics":[{"name":"alone","partitions":[0]},{"name":"orders","id":"00000000deadbeef","partitions":[0,2]}],"more":true}"#
        );
    }
}
