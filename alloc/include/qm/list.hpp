#pragma once
/// An intrusive, circular, doubly linked list. The node is a base or a member of what is listed.

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
  /// @returns what follows @p item, nullptr at the end.
  [[nodiscard]] T* next(const T* item) const noexcept {
    return item->next == &head_ ? nullptr : static_cast<T*>(item->next);
  }

  /// Whether @p node, some item's `next`, is this list's end.
  [[nodiscard]] bool is_end(const ListNode* node) const noexcept { return node == &head_; }

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

}  // namespace qm
