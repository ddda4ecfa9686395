// Values in more than one layout.
#pragma once

#include <optional>
#include <vector>

#include "fusion/layouts/layout.h"

namespace sinter::fusion {

/// Of each value: true if it depends on no input of the graph.
std::vector<bool> static_values(const Graph& graph);

/// The values of a graph in the new graph that is being built: each as it is, transposed, or both.
class Twins {
 public:
  Twins(const Graph& old, GraphBuilder& builder);

  /// `old` is made as `value`, in layout `perm`.
  void set(ValueId old, ValueId value, const Perm& perm);
  /// True if `old` depends on no input of the graph.
  bool is_static(ValueId old) const { return static_[at(old)]; }

  /// `old` as it is.
  ValueId plain(ValueId old);
  /// `old` in layout `perm`, of its own rank. Constants are transposed here and now.
  ValueId in(ValueId old, const Perm& perm);

 private:
  struct Twin {
    ValueId value;  // of the new graph
    Perm perm;      // not the identity
  };

  static std::size_t at(ValueId value) { return value.position(); }

  const Graph& old_;
  GraphBuilder& builder_;
  std::vector<ValueId> plain_;
  std::vector<std::optional<Twin>> twins_;
  std::vector<bool> static_;
};

}  // namespace sinter::fusion
