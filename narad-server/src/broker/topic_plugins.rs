//! The plugins of a topic: built by the server's configuration and by what the topic has of its own, and kept for as long
//! as neither changes, so that all of its logs share them.
//!
//! Building touches files that plugins keep. Nobody calls it on an async thread, or with a lock held.

use std::sync::Arc;

use narad_core::{
    plugin::{
        Codec, CodecSet, Incarnation, LogIdentity, PartitionId, PluginContext, PluginKind, Registry,
        RegistryError, RetentionPolicy, SilentWake, WakeNotifier,
    },
    store::{Store, TopicSpec},
};
use serde_json::{Value, json};

use super::{
    BrokerError,
    plugins::{AGE, retention_of},
};
use crate::{
    config::Storage,
    meta::{Topic, TopicName, plugin_name},
};

/// The largest configuration of a plugin that a topic can have, in bytes as JSON.
const MAX_SPEC_BYTES: usize = 16 << 10;

pub(super) struct Plugins {
    registry: Registry,
    settings: Storage,
    wake: Arc<dyn WakeNotifier>,
    /// Where topics' plugins keep their files.
    store: Option<Store>,
}

/// What a request says of a topic's retention, once it was found to fit.
#[derive(Debug, Default)]
pub(super) struct OwnRetention {
    pub(super) ms: Option<u64>,
    pub(super) policy: Option<Value>,
}

impl Plugins {
    /// Keeps `settings` once a topic could be built by them. Touches no file of a topic's; nobody is woken yet.
    ///
    /// # Errors
    /// An unknown plugin, or a configuration that does not fit it.
    pub(super) fn new(registry: Registry, settings: Storage) -> Result<Self, RegistryError> {
        let plugins = Self { registry, settings, wake: Arc::new(SilentWake), store: None };
        if let Ok(name) = TopicName::new("probe") {
            plugins.spec(&Topic::new(name, Incarnation::new(0), 1, 0), None)?;
        }
        Ok(plugins)
    }

    /// The same with files in `store`, and `wake` told of what the topics' logs announce.
    pub(super) fn serving(self, store: Store, wake: Arc<dyn WakeNotifier>) -> Self {
        Self { store: Some(store), wake, ..self }
    }

    /// The wake notifier of the configuration, which serves all logs.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(super) fn configured_wake(&self, node_id: &str) -> Result<Arc<dyn WakeNotifier>, RegistryError> {
        let context = PluginContext::new(LogIdentity::named(node_id));
        self.registry.build_wake(&self.settings.wake, &context)
    }

    /// What the store is to know of `topic`. Takes from `before`, an earlier state of a topic of that name, what has not
    /// changed since: a codec goes on with what it has in memory.
    ///
    /// # Errors
    /// A plugin is not there, or cannot be built.
    pub(super) fn spec(
        &self,
        topic: &Topic,
        before: Option<(&Topic, &TopicSpec)>,
    ) -> Result<TopicSpec, RegistryError> {
        let before = before.filter(|(earlier, _)| earlier.id == topic.id);
        let log = LogIdentity::partition(Arc::clone(&topic.name), topic.id, PartitionId(0));
        let context = match &self.store {
            Some(store) => PluginContext::new(log).in_place(store.plugin_place(&topic.name, topic.id)),
            None => PluginContext::new(log),
        };
        let same_codecs = |earlier: &Topic| {
            (&earlier.codec, &earlier.former_codecs) == (&topic.codec, &topic.former_codecs)
        };
        let (codec, readable) = match before.filter(|(earlier, _)| same_codecs(earlier)) {
            Some((_, spec)) => (Arc::clone(&spec.codec), spec.readable.clone()),
            None => self.codecs(topic, &context)?,
        };
        let mut spec = TopicSpec::new(Arc::clone(&topic.name), topic.id, topic.partitions, codec);
        spec.readable = readable;
        let same_retention = |earlier: &Topic| {
            (&earlier.retention, earlier.retention_ms) == (&topic.retention, topic.retention_ms)
        };
        spec.retention = match before.filter(|(earlier, _)| same_retention(earlier)) {
            Some((_, spec)) => Arc::clone(&spec.retention),
            None => self.retention(topic, &context)?,
        };
        spec.sync = match before {
            Some((_, spec)) => Arc::clone(&spec.sync),
            None => self.registry.build_sync(&self.settings.sync, &context)?,
        };
        spec.wake = Arc::clone(&self.wake);
        spec.prepare_segments = self.settings.prepare_segments;
        Ok(spec)
    }

    /// The codec for new frames, and with it every codec that needs no configuration and those that the topic had before.
    fn codecs(
        &self,
        topic: &Topic,
        context: &PluginContext<'_>,
    ) -> Result<(Arc<dyn Codec>, CodecSet), RegistryError> {
        // First what is wanted: of a topic whose plugin is not there nothing is looked at.
        let codec = self.registry.build_codec(self.codec_of(topic), context)?;
        let formers = topic.former_codecs.iter().map(|spec| self.registry.build_codec(spec, context));
        let formers = formers.collect::<Result<Vec<_>, _>>()?;
        let mut readable = self.registry.readable_codecs(context)?;
        for codec in formers.into_iter().chain([Arc::clone(&codec)]) {
            let name = codec.name().to_owned();
            readable.insert(codec).map_err(|error| RegistryError::Build {
                kind: PluginKind::Codec,
                name,
                source: error.into(),
            })?;
        }
        Ok((codec, readable))
    }

    fn codec_of<'a>(&'a self, topic: &'a Topic) -> &'a Value {
        topic.codec.as_ref().unwrap_or(&self.settings.codec)
    }

    fn retention(
        &self,
        topic: &Topic,
        context: &PluginContext<'_>,
    ) -> Result<Arc<dyn RetentionPolicy>, RegistryError> {
        match &topic.retention {
            Some(own) => self.registry.build_retention(own, context),
            None => retention_of(&self.registry, &self.settings, topic.retention_ms, context),
        }
    }

    /// The codec of topics that have none of their own.
    pub(super) fn default_codec(&self) -> &Value {
        &self.settings.codec
    }

    /// Whether a topic can have that codec. Who is no admin may not have a plugin look where the codec's settings say.
    ///
    /// # Errors
    /// `Invalid` says what does not fit.
    pub(super) fn check_codec(&self, spec: &Value, by_admin: bool) -> Result<(), BrokerError> {
        check_size("codec", spec)?;
        let built = self.registry.build_codec(spec, &probe(by_admin));
        built.map(drop).map_err(|error| BrokerError::invalid("codec", error.to_string()))
    }

    /// What a topic keeps of a retention that was asked for, as [`check_codec`](Self::check_codec) takes a codec:
    /// milliseconds are the argument of the policy `age`, whatever topics have that ask for none.
    ///
    /// # Errors
    /// `Invalid` says what does not fit.
    pub(super) fn own_retention(
        &self,
        ms: Option<u64>,
        policy: Option<Value>,
        by_admin: bool,
    ) -> Result<OwnRetention, BrokerError> {
        let policy = match (ms, policy) {
            (Some(_), Some(_)) => {
                let reason =
                    "retention_ms is the argument of the policy age; only one of the two can be given";
                return Err(BrokerError::invalid("retention", reason));
            }
            (None, None) => return Ok(OwnRetention::default()),
            (Some(ms), None) => json!({ "name": AGE, "retention_ms": ms }),
            (None, Some(policy)) => policy,
        };
        check_size("retention", &policy)?;
        let built = self.registry.build_retention(&policy, &probe(by_admin));
        built.map_err(|error| BrokerError::invalid("retention", error.to_string()))?;
        if plugin_name(&policy) != Some(AGE) {
            return Ok(OwnRetention { ms: None, policy: Some(policy) });
        }
        let ms = policy.get("retention_ms").and_then(Value::as_u64);
        let is_default = plugin_name(&self.settings.retention) == Some(AGE);
        Ok(OwnRetention { ms, policy: Some(policy).filter(|_| !is_default) })
    }
}

/// Without a directory: nothing is to be kept of a configuration that is only checked.
fn probe(by_admin: bool) -> PluginContext<'static> {
    let context = PluginContext::new(LogIdentity::partition("probe", Incarnation::new(0), PartitionId(0)));
    if by_admin { context } else { context.from_outside() }
}

fn check_size(name: &'static str, spec: &Value) -> Result<(), BrokerError> {
    match spec.to_string().len() {
        bytes if bytes > MAX_SPEC_BYTES => {
            Err(BrokerError::invalid(name, format!("{bytes} bytes; at most {MAX_SPEC_BYTES} are kept")))
        }
        _ => Ok(()),
    }
}
