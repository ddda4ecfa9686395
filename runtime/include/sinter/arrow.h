// SPDX-License-Identifier: Apache-2.0
// Binds columns of Arrow tables to inputs and exports outputs as columns, through the Arrow C data
// and C device interfaces. Needs no Arrow library.
//
// How a column maps to a tensor of rows:
//   bool, integers, float16, float32, float64   [rows]; bool is a byte in a tensor, a bit in Arrow
//   a fixed-size list of n of these             [rows, n]; nested lists add further dimensions
//   a dictionary                                its codes, in their own type
// Other types (text, times, decimals, variable-size lists, structures) throw Error(kUsage), which
// names the column, its type and the remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinter/arrow_abi.h>
#include <sinter/export.h>

namespace sinter {

class Session;

/// The columns that fill one input. A column's rank is 1, plus 1 for each level of fixed-size
/// lists. One column fills an input of its rank, or of one more rank whose last dimension is 1.
/// Several columns fill an input [rows, features], in this order; a column of lists contributes one
/// feature for each element of a list.
struct InputColumns {
  std::string input;
  std::vector<std::string> columns;
  /// Name of a validity-mask input: it receives 1 for a value and 0 for a null. Its shape is that
  /// of `input`; a last dimension of 1 may be added or missing. With a mask, nulls become 0 in
  /// `input`. Empty: BatchOptions::nulls applies.
  std::string mask;
};

/// How nulls are converted.
enum class Nulls : std::uint8_t {
  kRefused = 0,  // a column with nulls throws Error(kUsage)
  kNaN = 1       // in float inputs; other inputs refuse nulls
};

struct BatchOptions {
  /// An input that this list does not name takes the column of the same name.
  std::vector<InputColumns> inputs;
  Nulls nulls = Nulls::kRefused;
  /// Converts values: all numbers and bools to float32 and float64, rounded to nearest; smaller
  /// integers and bools to int32 and int64. False: a column whose type is not its input's throws
  /// Error(kUsage).
  bool cast = false;
  /// Requires columns for every input except states, also for inputs that were set before.
  bool all_inputs = false;
  /// Always copies columns; no run reads them in the batch's memory.
  bool copy = false;
  /// The range of rows that is bound; `rows` = -1 extends to the end of the batch.
  std::int64_t first_row = 0, rows = -1;
  /// Maximum number of threads that write columns; 0: the session's number of threads. A smaller
  /// number leaves cores to the thread that reads the next batch.
  int threads = 0;
};

struct BoundBatch {
  std::int64_t rows = 0;
  /// Indices of the inputs that runs read in the batch's memory. If there are any, the batch must
  /// not be released or changed during a run.
  std::vector<std::size_t> in_place;
};

/// Binds the columns of a record batch (a struct array) to the session's inputs. Columns without an
/// input are ignored; inputs without a column keep their previous values.
///
/// A column is read in place, as by Session::use_input, if it has no nulls, has the input's type
/// and is the input's only column. On the CPU it must also be aligned to its element size. All
/// other columns are copied to the session's own memory for the input (page-locked on a GPU) before
/// this returns. The caller keeps ownership of both structures and releases them.
///
/// Throws Error(kUsage) for a released or inconsistent structure, and as Session::set_input does;
/// on an error no input changes. Arrow's interfaces carry no buffer sizes: the producer guarantees
/// that buffers are as long as lengths and offsets say.
SINTER_API BoundBatch bind_record_batch(Session& session, const ArrowSchema& schema,
                                        const ArrowArray& batch, const BatchOptions& options = {});
/// The same for a batch that names its device. On a CUDA device every column must be readable in
/// place: the input's only column, of its type, without nulls, aligned to 16 bytes. Other columns
/// are refused. Waits for the batch's event. Refuses devices other than the CPU and CUDA.
SINTER_API BoundBatch bind_record_batch(Session& session, const ArrowSchema& schema,
                                        const ArrowDeviceArray& batch,
                                        const BatchOptions& options = {});
/// Binds one array, as a column, to one input. `options.inputs` must be empty.
SINTER_API BoundBatch bind_array(Session& session, std::size_t input, const ArrowSchema& schema,
                                 const ArrowArray& array, const BatchOptions& options = {});
SINTER_API BoundBatch bind_array(Session& session, std::size_t input, const ArrowSchema& schema,
                                 const ArrowDeviceArray& array, const BatchOptions& options = {});

/// Copies an output of the last run to a new array in host memory; waits for the run. An output of
/// rank 0 becomes an array of one element. The receiver calls `release` of `schema` and `array`.
/// Throws as Session::output does, and Error(kUsage) for outputs in device memory and for bfloat16,
/// which Arrow lacks.
SINTER_API void export_output(Session& session, std::size_t output, ArrowSchema* schema,
                              ArrowArray* array);
/// Exports all outputs except states as the columns of a record batch. Throws Error(kUsage) if
/// their numbers of rows differ.
SINTER_API void export_outputs(Session& session, ArrowSchema* schema, ArrowArray* batch);
/// The same in the outputs' own memory. On a GPU the session lends its memory, as to_dlpack does:
/// until `release`, the session refuses runs. The run has ended, so no event is set. Bool outputs
/// on a GPU are refused, since Arrow stores bools as bits.
SINTER_API void export_output(Session& session, std::size_t output, ArrowSchema* schema,
                              ArrowDeviceArray* array);
SINTER_API void export_outputs(Session& session, ArrowSchema* schema, ArrowDeviceArray* batch);

}  // namespace sinter
