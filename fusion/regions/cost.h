// What fusing saves: the cost model behind worth_fusing.
#pragma once

#include <cstddef>
#include <string>

#include "fusion/context.h"
#include "fusion/regions/region.h"

namespace sinter::fusion {

/// `dim` for a typical shape: every symbol 32, or what is nearest to it in its range.
double typical(const Dim& dim, const Ranges& ranges);
/// Bytes of `value` for a typical shape.
double typical_bytes(const Graph& graph, ValueId value);
/// Scalar operations for one element of `node`: 0 for views, 1 for an addition, more for what is a
/// short routine.
double work_per_element(const Node& node);
/// "1.5 MB"
std::string bytes_text(double bytes);

/// How a producer enters a region.
enum class Entry {
  kMove,    // nothing else needs it: it is never stored
  kOutput,  // others need it: the region stores it
  kCopy,    // others need it: it stays outside and is computed again here
};

/// A verdict with the figures behind it, for a typical shape.
struct Worth {
  bool ok = false;
  std::string reason;
  double bytes = 0;       // no longer moved
  double launches = 0;    // no longer made
  double operations = 0;  // scalar operations done again
};

/// Whether `after`, which has more in it than `before`, asks for each element which of several
/// sources it comes from where `before` does not. Programs that are interpreted are cut into ranges
/// of one source instead (codegen's lower_region_parts), which such a view prevents. So do windows
/// that overlap: `node`, which `after` has more, is asked for an element several times.
bool asks_elements(const Region& before, const Region& after, const Node& node,
                   const TargetTraits& target);

/// Whether taking `node` into `before` (giving `after`) saves time: bytes no longer moved and
/// launches no longer made, against operations done again because the region runs over more
/// elements. `copies`: if positive, all that many readers can compute the value themselves, and
/// once they do it is never stored.
Worth worth_fusing(const Region& before, const Region& after, const Node& node, Entry entry,
                   std::size_t copies, const TargetTraits& target);

/// What a kernel does by itself, for a typical shape.
struct KernelLoad {
  double bytes = 0;      // read and written
  double row_bytes = 0;  // of the rows that blocks alone would work on; 0: blocks are independent
};
/// Whether a kernel and `others` more, all of which are ready at once, take less time as one
/// launch: launches saved against rows that a block alone takes longer for than the whole GPU.
Verdict worth_joining(const KernelLoad& load, std::size_t others, const TargetTraits& target);

}  // namespace sinter::fusion
