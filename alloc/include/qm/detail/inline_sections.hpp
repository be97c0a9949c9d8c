#pragma once
/// The inlined pop and push as restartable sections: the code of sections.S, as `asm goto` in the caller.
/// <qm/inline_cache.hpp> includes it in builds with QM_FAST_PATH=sections.
///
///     pop   ld t0, pointer(tp)    this hart's per-hart cache; the closed one before the first allocation
///           ld t1, top(t0)
///           ld object, -8(t1)     null: empty or closed, to the slow half
///           beqz
///           addi t1, t1, -8
///           sd t1, top(t0)        the commit; with QM_COUNT the count's store follows it
///
///     entry of the table `qm_sections`:  | start - here | commit - start, end - start |      4 + 2 + 2 bytes
///
/// Invariants
/// - S1 A section reads everything again, starting from tp, so it may start again at any instruction up to its commit.
/// - S2 t0 is the per-hart cache and t3 the count, as in sections.S: the trap entry finishes an interrupted count.
/// - S3 Every section has its entry, in an ELF section with flag `o` (SHF_LINK_ORDER): the linker keeps the entry iff
///      it keeps the function, and sorts the table in the order of the text.

#include <cstddef>
#include <cstdint>

#include <qm/config.h>
#include <qm/cache.hpp>

#if __riscv_xlen == 64
#define QM_SECTION_LOAD "  ld "
#define QM_SECTION_STORE "  sd "
#else
#define QM_SECTION_LOAD "  lw "
#define QM_SECTION_STORE "  sw "
#endif

#define QM_SECTION_BEGIN ".option push\n.option norvc\n.Lqm_start%=:\n"
#define QM_SECTION_END                                          \
  ".Lqm_end%=:\n.option pop\n"                                  \
  ".pushsection qm_sections, \"ao\", @progbits, .Lqm_start%=\n" \
  "  .balign 4\n"                                               \
  "  .4byte .Lqm_start%= - .\n"                                 \
  "  .2byte .Lqm_commit%= - .Lqm_start%=\n"                     \
  "  .2byte .Lqm_end%= - .Lqm_start%=\n"                        \
  ".popsection\n"

#if defined(QM_COUNT)
#define QM_SECTION_COUNT_LOAD QM_SECTION_LOAD "t3, %[allocs](t0)\n"
#define QM_SECTION_COUNT_ADD "  addi t3, t3, 1\n"
#define QM_SECTION_COUNT_STORE QM_SECTION_STORE "t3, %[allocs](t0)\n"
#else
#define QM_SECTION_COUNT_LOAD ""
#define QM_SECTION_COUNT_ADD ""
#define QM_SECTION_COUNT_STORE ""
#endif

namespace qm::internal {

/// Takes the newest object of this hart's per-hart cache of @p Name. @returns false for the slow half. 6 instructions,
/// 9 with QM_COUNT.
template <class Name>
[[gnu::always_inline]] inline bool pop_inlined(void*& object) noexcept {
  void* taken;
  // clang-format off
  asm goto volatile(
      QM_SECTION_BEGIN                                  //
      QM_SECTION_LOAD "t0, %[pointer]\n"                // this hart's per-hart cache
      QM_SECTION_LOAD "t1, %[top](t0)\n"                //
      QM_SECTION_LOAD "%[taken], -%[word](t1)\n"        // the newest object
      "  beqz %[taken], %l[slow]\n"                     // null: empty or closed
      QM_SECTION_COUNT_LOAD                             //
      "  addi t1, t1, -%[word]\n"                       //
      QM_SECTION_COUNT_ADD                              //
      ".Lqm_commit%=:\n"                                //
      QM_SECTION_STORE "t1, %[top](t0)\n"               // commit
      QM_SECTION_COUNT_STORE                            // if interrupted here, the trap entry does this store
      QM_SECTION_END
      : [taken] "=&r"(taken)
      : [pointer] "m"(Name::hart_cache_pointer()), [top] "i"(offsetof(HartCache, top)), [allocs] "i"(offsetof(HartCache, counts)),
        [word] "i"(sizeof(void*))
      : "t0", "t1", "t3", "memory"
      : slow);
  // clang-format on
  object = taken;
  return true;
slow:
  return false;
}

/// Puts @p object into this hart's per-hart cache of @p Name. @returns false for the slow half. 7 instructions.
template <class Name>
[[gnu::always_inline]] inline bool push_inlined(void* object) noexcept {
  // clang-format off
  asm goto volatile(
      QM_SECTION_BEGIN                                  //
      QM_SECTION_LOAD "t0, %[pointer]\n"                //
      QM_SECTION_LOAD "t1, %[top](t0)\n"                //
      QM_SECTION_LOAD "t2, %[limit](t0)\n"              //
      "  bgeu t1, t2, %l[slow]\n"                       // full; watching and closed ones have limit 0
      QM_SECTION_STORE "%[object], 0(t1)\n"             // above top: not visible before the commit
      "  addi t1, t1, %[word]\n"                        //
      ".Lqm_commit%=:\n"                                //
      QM_SECTION_STORE "t1, %[top](t0)\n"               // commit
      QM_SECTION_END
      :
      : [object] "r"(object), [pointer] "m"(Name::hart_cache_pointer()), [top] "i"(offsetof(HartCache, top)),
        [limit] "i"(offsetof(HartCache, limit)), [word] "i"(sizeof(void*))
      : "t0", "t1", "t2", "memory"
      : slow);
  // clang-format on
  return true;
slow:
  return false;
}

/// Offset from tp of each hart's pointer to its per-hart cache.
template <class Name>
std::uintptr_t hart_cache_pointer_offset() noexcept {
  static_assert(
      sizeof(Name) != 0 && !hal::kThreads,
      "the port has threads that migrate: a cache is made by Cache::create(), and its fast path called out of line");
  return reinterpret_cast<std::uintptr_t>(&Name::hart_cache_pointer()) -
         reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
}

}  // namespace qm::internal

#undef QM_SECTION_LOAD
#undef QM_SECTION_STORE
#undef QM_SECTION_BEGIN
#undef QM_SECTION_END
#undef QM_SECTION_COUNT_LOAD
#undef QM_SECTION_COUNT_ADD
#undef QM_SECTION_COUNT_STORE

/// The hart's pointer to its per-hart cache, near tp.
#define QM_INLINE_CACHE_DECLARE_POINTER(Name) \
  extern constinit thread_local ::qm::HartCache* qm_hart_cache_pointer_##Name
#define QM_INLINE_CACHE_POINTER(Name) \
  [[gnu::always_inline]] static ::qm::HartCache*& hart_cache_pointer() noexcept { return qm_hart_cache_pointer_##Name; }
#define QM_INLINE_CACHE_DEFINE_POINTER(Name)                                                               \
  [[gnu::section(".tdata.qm_hot")]] constinit thread_local ::qm::HartCache* qm_hart_cache_pointer_##Name = \
      ::qm::closed_hart_cache()
