//! Families of metrics: one counter, gauge or histogram for each combination of labels.
//!
//! Not for: which metrics there are (the files beside this one).

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use whered_engine::store::Histogram;

pub(super) type Labels = Vec<(&'static str, String)>;
pub(super) type FloatGauge = Gauge<f64, AtomicU64>;

/// A histogram for each value of a label.
#[derive(Debug)]
pub(super) struct Histograms {
    /// The label's name.
    pub(super) label: &'static str,
    /// How many of the histograms' units are one of the metric's.
    pub(super) units: f64,
    /// The label's values, their histograms, and the sum of all values in the metric's unit.
    pub(super) all: Vec<(String, Histogram, f64)>,
}

impl EncodeMetric for Histograms {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (value, histogram, sum) in &self.all {
            let labels = [(self.label, value.as_str())];
            // Without a label there is one histogram.
            let labels = if self.label.is_empty() { &[][..] } else { &labels[..] };
            let mut encoder = encoder.encode_family(&labels)?;
            let buckets = histogram.buckets.iter().enumerate().map(|(bucket, count)| {
                // The last bucket holds whatever is larger.
                let is_last = bucket + 1 == Histogram::BUCKETS;
                let bound = Histogram::bound(bucket) as f64 / self.units;
                (if is_last { f64::INFINITY } else { bound }, *count)
            });
            let buckets: Vec<(f64, u64)> = buckets.collect();
            // Read a moment apart, a count kept elsewhere might not be the sum of the buckets.
            let count = histogram.count();
            encoder.encode_histogram::<NoLabelSet>(*sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// A counter for each combination of labels.
#[derive(Default)]
pub(super) struct Counters(Family<Labels, Counter>);

impl Counters {
    pub(super) fn add<const N: usize>(&self, labels: [(&'static str, &str); N], count: u64) {
        self.0.get_or_create(&owned(labels)).inc_by(count);
    }

    pub(super) fn register(self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0);
    }
}

/// A gauge for each combination of labels.
#[derive(Default)]
pub(super) struct Gauges(Family<Labels, Gauge<u64, AtomicU64>>);

impl Gauges {
    pub(super) fn set<const N: usize>(&self, labels: [(&'static str, &str); N], value: u64) {
        self.0.get_or_create(&owned(labels)).set(value);
    }

    pub(super) fn register(self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0);
    }
}

/// A gauge with a fraction for each combination of labels.
#[derive(Default)]
pub(super) struct FloatGauges(Family<Labels, FloatGauge>);

impl FloatGauges {
    pub(super) fn set<const N: usize>(&self, labels: [(&'static str, &str); N], value: f64) {
        self.0.get_or_create(&owned(labels)).set(value);
    }

    pub(super) fn register(self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0);
    }
}

/// A counter with a fraction for each combination of labels.
#[derive(Default)]
pub(super) struct FloatCounters(Family<Labels, Counter<f64, AtomicU64>>);

impl FloatCounters {
    pub(super) fn add<const N: usize>(&self, labels: [(&'static str, &str); N], value: f64) {
        self.0.get_or_create(&owned(labels)).inc_by(value);
    }

    pub(super) fn register(self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0);
    }
}

pub(super) fn owned<const N: usize>(labels: [(&'static str, &str); N]) -> Labels {
    labels.into_iter().map(|(name, value)| (name, value.to_owned())).collect()
}
