// Schedules: how a loop program is spread over a GPU's threads.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit/program_analysis.h"

namespace sinter::codegen {

enum class Family {
  kPointwise,  // no reduction: threads along all elements
  kRow,        // `threads_x` threads share a row and reduce by shuffles, then by shared memory
  kColumn,     // threads along rows; `threads_y` of them share one and reduce by shared memory
  kScan,       // as kRow, but a row is taken part by part, a vector for each thread
  kWindow,     // a thread reduces whole rows: a vector of them, `tile` such side by side
  kTranspose,  // no reduction: tiles, whose loads along another dimension pass through shared
               // memory
};

/// Values that several rows of a tile have in common, as windows have that overlap: what varies
/// with rows along `tile_dim` and elements along `window_dim` only as
/// row * row_step + element * element_step does. One of the steps is 1.
struct Overlap {
  int tile_dim = -1, window_dim = -1;  // an outer and an inner loop dimension; -1: none
  std::int64_t row_step = 1, element_step = 1;
  std::vector<bool> shared;  // which values
  /// Different sums for `tile` rows of `window` elements.
  std::int64_t slots(std::int64_t tile, std::int64_t window) const {
    return row_step * (tile - 1) + element_step * (window - 1) + 1;
  }
};

/// Accesses whose neighbours lie along `from` while most of what a kernel stores lies along `to`: a
/// block passes them through shared memory, tile by tile, in vectors along `from`.
struct Turn {
  int from = -1, to = -1;    // loop dimensions
  int vector = 1;            // elements along `from` that one load moves
  int width = 0;             // of a tile, along `to`: powers of two
  int height = 0;            // along `from`
  std::vector<bool> values;  // which loads and stores
};

/// The integers that decide a kernel. "Vector" is a run of elements along vector_dim that is moved
/// with one access; with vector 1 an element.
struct Schedule {
  Family family = Family::kPointwise;
  int vector = 1;       // elements of a vector
  int unroll = 1;       // vectors that a thread holds in registers; 0: it loops and reads again
  int threads_x = 256;  // pointwise, row: see Family; column: rows of a block
  int threads_y = 1;    // row: rows of a block; column: threads that share a row
  int cluster = 1;      // row: blocks that share a row, on neighbouring multiprocessors (sm_90)
  int blocks = 0;       // of a multiprocessor, at least: bounds a thread's registers; 0: unbounded
  bool staged = false;  // row: what a thread loads ahead waits in shared memory, not in registers
  /// row: few registers are held from pass to pass: what all rows share is loaded where it is used,
  /// what is cheap to compute is computed again from what was loaded.
  bool lean = false;
  bool again = false;   // row, lean: results of long operations too are computed again
  int ahead = 1;        // row, looped: vectors that are loaded at once
  bool tail = false;    // row, looped: elements behind the last whole vector are taken one by one
  int tile = 1;         // window: neighbouring rows of a thread, along overlap.tile_dim
  bool rolled = false;  // window: only the loop over overlap.window_dim is unrolled
  Overlap overlap;
  Turn turn;                        // transpose
  int vector_dim = -1;              // loop dimension along which vectors lie; -1: no vectors
  std::vector<bool> vector_access;  // accesses that move whole vectors
  std::vector<plan::fb::Condition> conditions;  // when this schedule may be used

  bool looped() const { return unroll == 0; }
  int threads() const { return threads_x * threads_y; }
  /// "row vector=8 unroll=2 threads=32x4".
  std::string to_string() const;
};

}  // namespace sinter::codegen
