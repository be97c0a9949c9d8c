#pragma once
/// An intrusive, circular, doubly linked list. The node is a base or a member of the listed object.

#include <qm/detail/bits.hpp>

namespace qm {

struct ListNode {
  ListNode* next = nullptr;
  ListNode* prev = nullptr;
  [[nodiscard]] bool linked() const noexcept { return next != nullptr; }
};

/// A list of T, where T derives from ListNode. Not synchronised; all operations are O(1).
template <class T>
class List {
 public:
  constexpr List() noexcept { head_.next = head_.prev = &head_; }
  /// Forgets all items without touching them.
  void reset() noexcept { head_.next = head_.prev = &head_; }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  [[nodiscard]] bool empty() const noexcept { return head_.next == &head_; }
  [[nodiscard]] T* front() const noexcept { return empty() ? nullptr : static_cast<T*>(head_.next); }
  [[nodiscard]] T* back() const noexcept { return empty() ? nullptr : static_cast<T*>(head_.prev); }
  /// @returns the item after @p item, nullptr at the end.
  [[nodiscard]] T* next(const T* item) const noexcept {
    return item->next == &head_ ? nullptr : static_cast<T*>(item->next);
  }

  void push_front(T* item) noexcept { insert(&head_, item, head_.next); }
  void push_back(T* item) noexcept { insert(head_.prev, item, &head_); }
  T* pop_front() noexcept {
    T* item = front();
    if (item != nullptr) remove(item);
    return item;
  }
  static void remove(T* item) noexcept {
    item->prev->next = item->next;
    item->next->prev = item->prev;
    item->next = item->prev = nullptr;
  }

 private:
  static void insert(ListNode* before, ListNode* item, ListNode* after) noexcept {
    item->prev = before;
    item->next = after;
    before->next = item;
    after->prev = item;
  }
  ListNode head_;
};

/// The same with a single pointer as its head, for objects with many lists. An item in no list keeps its links.
template <class T>
class Ring {
 public:
  constexpr Ring() noexcept = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// An estimate if the caller does not hold the list's lock.
  [[nodiscard]] bool empty() const noexcept { return front() == nullptr; }
  [[nodiscard]] T* front() const noexcept { return first_.load(std::memory_order_relaxed); }
  [[nodiscard]] T* back() const noexcept {
    T* first = front();
    return first != nullptr ? static_cast<T*>(first->prev) : nullptr;
  }
  /// @returns the item after @p item, nullptr at the end.
  [[nodiscard]] T* next(const T* item) const noexcept {
    T* after = static_cast<T*>(item->next);
    return after == front() ? nullptr : after;
  }
  void push_front(T* item) noexcept {
    T* const first = front();
    store_relaxed(first_, item);
    link(item, first);
  }
  void push_back(T* item) noexcept {
    T* const first = front();
    if (first == nullptr) store_relaxed(first_, item);
    link(item, first);
  }
  /// Removes @p first, which is front().
  void pop_front(T* first) noexcept {
    ListNode* after = first->next;
    ListNode* before = first->prev;
    store_relaxed(first_, after != first ? static_cast<T*>(after) : nullptr);
    before->next = after;
    after->prev = before;
  }
  void remove(T* item) noexcept {
    ListNode* after = item->next;
    ListNode* before = item->prev;
    if (front() == item) store_relaxed(first_, after != item ? static_cast<T*>(after) : nullptr);
    before->next = after;
    after->prev = before;
  }

 private:
  /// Inserts @p item between the last item and @p first, which is null if the list is empty.
  static void link(T* item, T* first) noexcept {
    if (first == nullptr) {
      item->next = item->prev = item;
      return;
    }
    ListNode* const last = first->prev;
    item->next = first;
    item->prev = last;
    last->next = item;
    first->prev = item;
  }
  std::atomic<T*> first_{nullptr};
};

}  // namespace qm
