#pragma once
/// The timed workloads. Each function returns nanoseconds of wall clock for one pair of an allocation and a free, or,
/// for a recording, for one operation.

#include "subjects.hpp"

namespace qm::bench {

/// Allocates a block and frees it at once.
double lifo(const Subject& subject, unsigned pairs);
/// Frees a random one of 1000 live blocks and allocates a new one.
double replace_fixed(const Subject& subject, unsigned pairs);
/// The same with sizes from 16 to 1024 bytes.
double replace_mixed(const Subject& subject, unsigned pairs);
/// Two threads at once.
double lifo_two_threads(const Subject& subject, unsigned pairs);
double replace_two_threads(const Subject& subject, unsigned pairs);
/// One thread allocates, another frees; a ring of 1024 blocks lies between them.
double producer_consumer(const Subject& subject, unsigned pairs);

/// Complete recordings of firmware/replay, by subjects that can reallocate. Two threads do the work of redis' four, two
/// each.
double replay_sqlite(const Subject& subject, unsigned);
double replay_jq(const Subject& subject, unsigned);
double replay_redis(const Subject& subject, unsigned);
double replay_redis_two_threads(const Subject& subject, unsigned);

}  // namespace qm::bench
