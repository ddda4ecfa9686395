// Schedules: how a loop program is spread over a GPU's threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sinter/scalar_op.h>

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

/// The longest vectors (of at most `most` elements) along `dim`, and which accesses then move whole
/// vectors. Conditions are what sizes must fulfil that are not known; nothing is required of
/// constants that do not fit: then the vectors are shorter.
struct VectorPlan {
  int vector = 1;
  bool tail = false;  // the last vector of a row may not be whole
  int dim = -1;
  std::vector<bool> vector_access;
  std::vector<plan::fb::Condition> conditions;
};
/// `tails`: rows need not consist of whole vectors. `among`: of these instructions alone; null: of
/// all.
VectorPlan plan_vectors(const ProgramAnalysis& analysis, int dim, int most = 8, bool tails = false,
                        const std::vector<bool>* among = nullptr);

/// Values that vary along `dim` but not within its vectors: whether an index lies before what is a
/// multiple of the vector. Sums that these alone use count as well, with a vector's first index.
std::vector<bool> uniform_in_vectors(const ProgramAnalysis& analysis, int dim, int vector);

/// True if a thread that holds its elements in registers keeps this one of them (the result of an
/// operation) from the reduction stage that computes it to a later one that uses it.
bool keeps_for_later(const ProgramAnalysis& analysis, std::size_t value);

/// True if a lean schedule computes this value again in each stage that uses it: a few short
/// operations on what is held anyway, or on one element that takes half a register. `again`: long
/// operations too.
bool is_cheap_again(const ProgramAnalysis& analysis, std::size_t value, bool again = false);

/// True if a load reads the same for every row, whatever it reads.
bool is_shared_by_rows(const ProgramAnalysis& analysis, std::size_t load);

/// True if a load is not issued ahead: a lean schedule's of what all rows share.
bool is_late(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load);

/// True if a load can be staged: a whole vector of 4 or more bytes, unconditional, and read by one
/// row alone.
bool can_stage(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load);

/// True for operations of many instructions: division, powers, exponentials and the like.
bool is_long_operation(ScalarOp op);

/// 32-bit words of registers that one element of a row takes while the row's reductions run.
double words_per_element(const ProgramAnalysis& analysis, bool lean = false, bool again = false);

// For each family: whether it takes the program, and the schedules to emit, in the order in which
// the runtime tries their conditions; the last has none.
bool can_schedule_pointwise(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_pointwise(const ProgramAnalysis& analysis);
// Tiles through shared memory, where some loads run along another dimension than the stores.
bool can_schedule_transpose(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_transpose(const ProgramAnalysis& analysis);
/// What `wish` says about vectors, tile and threads. Throws Error(kUsage) if they do not fit.
Schedule transpose_schedule(const ProgramAnalysis& analysis, const Schedule& wish);
bool can_schedule_column(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_column(const ProgramAnalysis& analysis);
bool can_schedule_row(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_row(const ProgramAnalysis& analysis);
// Short rows of constant length next to each other: windows with channels last.
bool can_schedule_window(const ProgramAnalysis& analysis);
/// True if there are so many rows that no two threads need share one.
bool fills_windows(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_window(const ProgramAnalysis& analysis);
/// Throws Error(kUsage) if no schedule of that vector and tile takes the program.
Schedule window_schedule(const ProgramAnalysis& analysis, int vector, int tile, int threads);
// Running combinations along rows, whose parts are taken in order.
bool can_schedule_scan(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_scan(const ProgramAnalysis& analysis);
/// Rows that a block of `threads` loops over, for a kernel that has other work too: no conditions.
Schedule choose_shared_row(const ProgramAnalysis& analysis, int threads);
/// For a kernel whose blocks of `threads` do the work of several programs: this one's. Throws
/// Error(kUnsupported) for scans and scatters.
std::vector<Schedule> choose_shared(const ProgramAnalysis& analysis, int threads);
/// 32-bit words of registers that a thread's elements take.
double held_words(const ProgramAnalysis& analysis, const Schedule& schedule);
// One thread a row, which takes its elements one after the other.
bool can_schedule_ordered(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_ordered(const ProgramAnalysis& analysis);

/// Throws Error(kUsage) if no family of kernels, products and attention included, has schedules
/// like `text`.
void check_family(const std::string& text);

/// The schedule that `text` (Schedule::to_string) describes, for measuring. Throws Error(kUsage) if
/// it is none, or none for this program.
Schedule parse_schedule(const ProgramAnalysis& analysis, const std::string& text);

/// The one that the request asks for; else picks the family: pointwise without reductions; columns
/// where neighbouring rows, not neighbouring elements of a row, lie next to each other in memory;
/// else rows.
std::vector<Schedule> choose_schedules(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
