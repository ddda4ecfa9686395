// SPDX-License-Identifier: Apache-2.0
// The cost model behind worth_fusing(): savings of fusion.
#pragma once

#include <cstddef>
#include <string>

#include "fusion/context.h"
#include "fusion/regions/region.h"

namespace sinter::fusion {

/// `dim` for a typical shape: every symbol is 32, clamped to its range.
double typical(const Dim& dim, const Ranges& ranges);
/// Bytes of `value` for a typical shape.
double typical_bytes(const Graph& graph, ValueId value);
/// Scalar operations for one element of `node`: 0 for views, 1 for an addition, more for short
/// routines.
double work_per_element(const Node& node);
/// "1.5 MB"
std::string bytes_text(double bytes);

/// How a producer enters a region.
enum class Entry {
  kMove,    // no other readers: never stored
  kOutput,  // other readers: the region stores it
  kCopy,    // other readers: it stays outside and is recomputed here
};

/// What happens to a value with other readers.
struct Copies {
  /// If positive, that many readers can all recompute the value, which is then never stored.
  std::size_t readers = 0;
  /// Otherwise a kernel that runs anyway stores it, as a chain of states does at each step: copies
  /// save no launch, and each would repeat all steps before it.
  bool has_kernel = false;
};

/// A verdict with its figures, for a typical shape.
struct Worth {
  bool ok = false;
  std::string reason;
  double bytes = 0;       // of traffic saved
  double launches = 0;    // saved
  double operations = 0;  // repeated scalar operations
};

/// Whether `after` (`before` with more nodes) selects among sources for each element where `before`
/// does not. Interpreted programs are instead cut into ranges of one source (codegen's
/// lower_region_parts), which such a view prevents. So do overlapping windows, which need an
/// element of the added `node` several times.
bool asks_elements(const Region& before, const Region& after, const Node& node,
                   const TargetTraits& target);

/// Whether adding `node` to `before` (giving `after`) saves time: saved traffic and launches
/// against repeated operations, if the region has more elements.
Worth worth_fusing(const Region& before, const Region& after, const Node& node, Entry entry,
                   const Copies& copies, const TargetTraits& target);

/// The load of a separate kernel, for a typical shape.
struct KernelLoad {
  double bytes = 0;      // read and written
  double row_bytes = 0;  // of rows processed by one block; 0: blocks are independent
};
/// Whether a kernel and `others` more, all ready at once, are faster as one launch: saved launches
/// against rows that take a single block longer than the whole GPU.
Verdict worth_joining(const KernelLoad& load, std::size_t others, const TargetTraits& target);

}  // namespace sinter::fusion
