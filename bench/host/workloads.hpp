#pragma once
/// What is timed. Each function returns nanoseconds for one pair of an allocation and a free, of a recording for one
/// operation; wall clock.

#include "subjects.hpp"

namespace qm::bench {

/// A block taken and given back at once.
double lifo(const Subject& subject, unsigned pairs);
/// A random one of 1000 live blocks given back and taken anew.
double replace_fixed(const Subject& subject, unsigned pairs);
/// The same with sizes from 16 to 1024 bytes.
double replace_mixed(const Subject& subject, unsigned pairs);
/// Two threads at once.
double lifo_two_threads(const Subject& subject, unsigned pairs);
double replace_two_threads(const Subject& subject, unsigned pairs);
/// One thread takes, another gives back; a ring of 1024 between them.
double producer_consumer(const Subject& subject, unsigned pairs);

/// The recordings of firmware/replay, whole, by subjects that reallocate. Of redis' four threads each of two does two.
double replay_sqlite(const Subject& subject, unsigned);
double replay_jq(const Subject& subject, unsigned);
double replay_redis(const Subject& subject, unsigned);
double replay_redis_two_threads(const Subject& subject, unsigned);

}  // namespace qm::bench
