// SPDX-License-Identifier: Apache-2.0
// Columns of Arrow tables to inputs, outputs to columns, through the Arrow C data and C device
// interfaces. No Arrow library is needed.
//
// What a column is to a tensor of rows:
//   bool, integers, float16, float32, float64   [rows]; bool is a byte in a tensor, a bit in Arrow
//   a fixed-size list of n of these             [rows, n], and so on for lists in lists
//   a dictionary                                its codes, of the type that they have
// Other types (text, times, decimals, lists of any length, structures) are Error(kUsage) that names
// the column, its type and what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinter/arrow_abi.h>
#include <sinter/export.h>

namespace sinter {

class Session;

/// The columns that one input takes. One column fills an input of its own rank, or of one more
/// whose last dimension is 1. Several fill one of [rows, features], in this order; a column of
/// lists brings as many features as a list has elements.
struct InputColumns {
  std::string input;
  std::vector<std::string> columns;
  /// An input that is given 1 where a value is there and 0 where it is null; of the shape of
  /// `input`, a last dimension of 1 aside. Nulls are 0 in `input` then. Empty: BatchOptions::nulls.
  std::string mask;
};

/// What a null becomes.
enum class Nulls : std::uint8_t {
  kRefused = 0,  // a column that has one is Error(kUsage)
  kNaN = 1       // of inputs of floats; in others it is refused
};

struct BatchOptions {
  /// Inputs that are not named here take the column of their own name.
  std::vector<InputColumns> inputs;
  Nulls nulls = Nulls::kRefused;
  /// Values are converted: all numbers and bools to float32 and float64, rounded to nearest,
  /// smaller integers and bools to int32 and int64. False: a column of another type than its
  /// input's is Error(kUsage).
  bool cast = false;
  /// Every input takes columns, states aside: one that was set before is no exception.
  bool all_inputs = false;
  /// Never leave a column where it lies.
  bool copy = false;
  /// The part of the batch that is taken; `rows` of -1: to its end.
  std::int64_t first_row = 0, rows = -1;
  /// Most threads that write columns; 0: as many as the session computes with. Fewer leave
  /// processors to who reads the next batch meanwhile.
  int threads = 0;
};

struct BoundBatch {
  std::int64_t rows = 0;
  /// Inputs that runs read in the batch's memory, by index. While there are any, the batch must not
  /// be released or changed from the start of a run to its end.
  std::vector<std::size_t> in_place;
};

/// Gives the columns of a record batch (a struct array) to the session's inputs. Columns that no
/// input takes are left alone; an input that has no column keeps what it was given before.
///
/// Read where it lies, as Session::use_input does, is a column without nulls that fills an input
/// alone and is of its type: by a plan for the CPU where it is aligned to its element. All others
/// are written to the session's own memory for the input (page-locked, on a GPU) before this
/// returns. Both structures stay the caller's, who releases them.
///
/// Throws Error(kUsage) for a released or inconsistent structure, and as Session::set_input does;
/// inputs change only when all columns were found to fit. Buffers have no sizes in Arrow's
/// interfaces: that they are as long as lengths and offsets say is the producer's promise.
SINTER_API BoundBatch bind_record_batch(Session& session, const ArrowSchema& schema,
                                        const ArrowArray& batch, const BatchOptions& options = {});
/// The same for a batch that says where it is. On a CUDA device a column is read where it lies, or
/// refused: it fills an input alone, has its type, no nulls, and lies at a multiple of 16 bytes.
/// Waits for the batch's event. Other devices than the CPU and CUDA are refused.
SINTER_API BoundBatch bind_record_batch(Session& session, const ArrowSchema& schema,
                                        const ArrowDeviceArray& batch,
                                        const BatchOptions& options = {});
/// One array, which is a column, to one input. `options.inputs` must be empty.
SINTER_API BoundBatch bind_array(Session& session, std::size_t input, const ArrowSchema& schema,
                                 const ArrowArray& array, const BatchOptions& options = {});
SINTER_API BoundBatch bind_array(Session& session, std::size_t input, const ArrowSchema& schema,
                                 const ArrowDeviceArray& array, const BatchOptions& options = {});

/// An output of the last run as a new array in memory of its own, in host memory; waits for the
/// run. An output of rank 0 is an array of one element. `schema` and `array` are written to, and
/// the receiver calls their `release`. Throws as Session::output does, Error(kUsage) for outputs in
/// device memory and for bfloat16, which Arrow has not.
SINTER_API void export_output(Session& session, std::size_t output, ArrowSchema* schema,
                              ArrowArray* array);
/// All outputs but states as the columns of a record batch. Throws Error(kUsage) if they have not
/// the same number of rows.
SINTER_API void export_outputs(Session& session, ArrowSchema* schema, ArrowArray* batch);
/// The same where the outputs are. On a GPU the memory stays the session's and is lent, as
/// to_dlpack does it: until `release`, runs are refused. The run has ended, so that there is no
/// event; bool outputs, which are bits in Arrow, are refused there.
SINTER_API void export_output(Session& session, std::size_t output, ArrowSchema* schema,
                              ArrowDeviceArray* array);
SINTER_API void export_outputs(Session& session, ArrowSchema* schema, ArrowDeviceArray* batch);

}  // namespace sinter
