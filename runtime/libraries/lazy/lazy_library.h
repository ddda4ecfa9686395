// SPDX-License-Identifier: Apache-2.0
// C libraries that are opened at the first call of one of their functions, so that programs which
// do not need them do not pay for loading them. A source defines the functions under their own
// names; linking it instead of the library defers opening.
#pragma once

#include <atomic>
#include <cstddef>
#include <tuple>

namespace sinter::libraries {

class LazyLibrary {
 public:
  /// `file`: the library's soname, which the loader searches for. `what`: its name and use.
  /// `install`: how to install it. Both are for the error.
  constexpr LazyLibrary(const char* file, const char* what, const char* install)
      : file_(file), what_(what), install_(install) {}

  /// The address of a function. Opens the library and never closes it, because its objects may
  /// outlive their users. Thread-safe. Throws Error(kDevice) if the library or the function is
  /// missing.
  void* find(const char* function);

 private:
  const char *file_, *what_, *install_;
  std::atomic<void*> handle_ = nullptr;
};

template <class F>
struct FunctionParts;
template <class R, class... A>
struct FunctionParts<R(A...)> {
  using Result = R;
  using Arguments = std::tuple<A...>;
};
template <class F, std::size_t I>
using Argument = std::tuple_element_t<I, typename FunctionParts<F>::Arguments>;

}  // namespace sinter::libraries

// SINTER_LAZY_N(library, function): defines the C function of N arguments that a header declares.
#define SINTER_LAZY(library, function, parameters, arguments)                                     \
  extern "C" ::sinter::libraries::FunctionParts<decltype(function)>::Result function parameters { \
    static const auto found = reinterpret_cast<decltype(&function)>((library).find(#function));   \
    return found arguments;                                                                       \
  }
#define SINTER_A(f, i) ::sinter::libraries::Argument<decltype(f), i> a##i
#define SINTER_LAZY_0(l, f) SINTER_LAZY(l, f, (), ())
#define SINTER_LAZY_1(l, f) SINTER_LAZY(l, f, (SINTER_A(f, 0)), (a0))
#define SINTER_LAZY_2(l, f) SINTER_LAZY(l, f, (SINTER_A(f, 0), SINTER_A(f, 1)), (a0, a1))
#define SINTER_LAZY_3(l, f) \
  SINTER_LAZY(l, f, (SINTER_A(f, 0), SINTER_A(f, 1), SINTER_A(f, 2)), (a0, a1, a2))
#define SINTER_A4(f) SINTER_A(f, 0), SINTER_A(f, 1), SINTER_A(f, 2), SINTER_A(f, 3)
#define SINTER_LAZY_4(l, f) SINTER_LAZY(l, f, (SINTER_A4(f)), (a0, a1, a2, a3))
#define SINTER_LAZY_5(l, f) SINTER_LAZY(l, f, (SINTER_A4(f), SINTER_A(f, 4)), (a0, a1, a2, a3, a4))
#define SINTER_LAZY_6(l, f) \
  SINTER_LAZY(l, f, (SINTER_A4(f), SINTER_A(f, 4), SINTER_A(f, 5)), (a0, a1, a2, a3, a4, a5))
#define SINTER_A7(f) SINTER_A4(f), SINTER_A(f, 4), SINTER_A(f, 5), SINTER_A(f, 6)
#define SINTER_LAZY_7(l, f) SINTER_LAZY(l, f, (SINTER_A7(f)), (a0, a1, a2, a3, a4, a5, a6))
#define SINTER_A13(f)                                                                             \
  SINTER_A7(f), SINTER_A(f, 7), SINTER_A(f, 8), SINTER_A(f, 9), SINTER_A(f, 10), SINTER_A(f, 11), \
      SINTER_A(f, 12)
#define SINTER_LAZY_13(l, f) \
  SINTER_LAZY(l, f, (SINTER_A13(f)), (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12))
#define SINTER_LAZY_17(l, f)                                                                       \
  SINTER_LAZY(l, f,                                                                                \
              (SINTER_A13(f), SINTER_A(f, 13), SINTER_A(f, 14), SINTER_A(f, 15), SINTER_A(f, 16)), \
              (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16))
