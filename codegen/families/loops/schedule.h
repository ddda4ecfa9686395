// SPDX-License-Identifier: Apache-2.0
// Schedules: how a loop program is distributed over a GPU's threads.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codegen/emit/program_analysis.h"
#include "codegen/families/loops/column/column_parameters.h"
#include "codegen/families/loops/pointwise/pointwise_parameters.h"
#include "codegen/families/loops/row/row_parameters.h"
#include "codegen/families/loops/scan/scan_parameters.h"
#include "codegen/families/loops/stencil/stencil_parameters.h"
#include "codegen/families/loops/strided/strided_parameters.h"
#include "codegen/families/loops/transpose/tile_transpose.h"
#include "codegen/families/loops/window/window_parameters.h"

namespace sinter::codegen {

/// The kinds of schedules, each with its specific integers.
using ScheduleKind =
    std::variant<PointwiseParameters, RowParameters, ColumnParameters, ScanParameters,
                 WindowParameters, TileTranspose, StridedParameters, StencilParameters>;

/// The integers that determine a kernel. A "vector" is a run of elements along vector_dim that one
/// access moves; with vector 1, one element.
struct Schedule {
  ScheduleKind kind;
  int vector = 1;       // elements of a vector
  int unroll = 1;       // vectors that a thread keeps in registers; 0: it loops and reloads
  int threads_x = 256;  // of a block; see the kinds for their roles
  int threads_y = 1;
  int vector_dim = -1;              // loop dimension along which vectors lie; -1: no vectors
  std::vector<bool> vector_access;  // accesses of whole vectors
  std::vector<plan::fb::Condition> conditions;  // when this schedule may be used

  template <class Kind>
  bool is() const {
    return std::holds_alternative<Kind>(kind);
  }
  template <class Kind>
  const Kind& as() const {
    return std::get<Kind>(kind);
  }
  template <class Kind>
  Kind& as() {
    return std::get<Kind>(kind);
  }
  /// The parameters of row reductions in several passes; for other kinds, neutral ones.
  const ReductionParameters& reduction() const;
  /// The row's parameters; for other kinds the defaults.
  const RowParameters& row() const;
  /// Neighbouring rows along dimension `d` that a thread computes together (window schedules);
  /// otherwise 1.
  int tile(std::integral auto d) const {
    const auto* window = std::get_if<WindowParameters>(&kind);
    return window != nullptr && static_cast<int>(d) == window->overlap.tile_dim ? window->tile : 1;
  }

  bool looped() const { return unroll == 0; }
  int threads() const { return threads_x * threads_y; }
  /// "row vector=8 unroll=2 threads=32x4".
  std::string to_string() const;
  /// Applies a word "key", "key=first" or "key=firstxsecond"; false if it is unknown.
  bool read(std::string_view key, int first, int second);
};

/// Names of all kinds, in the order of ScheduleKind.
std::vector<std::string_view> schedule_names();
/// The kind with that name, or nothing.
std::optional<ScheduleKind> schedule_kind(std::string_view name);

}  // namespace sinter::codegen
