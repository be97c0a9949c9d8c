// C++ without a C++ library: operator new allocates from the same heap.

#include "board.h"

namespace {

class Counter {
 public:
  explicit Counter(int limit) : hits_(new int[static_cast<unsigned>(limit)]()), limit_(limit) {}
  ~Counter() { delete[] hits_; }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  void add(int slot) { ++hits_[slot % limit_]; }
  [[nodiscard]] int sum() const {
    int all = 0;
    for (int i = 0; i < limit_; ++i) all += hits_[i];
    return all;
  }

 private:
  int* hits_;
  int limit_;
};

}  // namespace

int count_vowels(char* const* words, int count) {
  Counter counter(3);
  for (int i = 0; i < count; ++i) {
    for (const char* at = words[i]; *at != 0; ++at) {
      if (*at == 'a' || *at == 'e' || *at == 'i' || *at == 'o' || *at == 'u') counter.add(i);
    }
  }
  return counter.sum();
}
