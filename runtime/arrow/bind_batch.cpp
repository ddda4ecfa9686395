// SPDX-License-Identifier: Apache-2.0
// Binds columns of record batches to a session's inputs: sinter/arrow.h.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <sinter/arrow.h>
#include <sinter/session.h>
#include <sinter/threads.h>

#include "runtime/arrow/column.h"
#include "runtime/arrow/write_columns.h"
#include "runtime/format_error.h"
#include "runtime/plan/input_shapes.h"
#include "runtime/session_access.h"
#include "runtime/threads/thread_pool.h"

namespace sinter {
namespace {

using arrow::Column;

/// Location of an array's buffers.
struct Place {
  Memory memory = Memory::kHost;
  int device = -1;
  void* event = nullptr;

  bool on_device() const { return memory == Memory::kDevice; }
};

Place place_of(const ArrowDeviceArray& array) {
  Place place;
  switch (array.device_type) {
    case ARROW_DEVICE_CPU:
    case ARROW_DEVICE_CUDA_HOST: break;
    case ARROW_DEVICE_CUDA:
    case ARROW_DEVICE_CUDA_MANAGED:
      place.memory = Memory::kDevice;
      if (array.device_id < 0 || array.device_id > 1024)
        throw usage_error("the Arrow array is on CUDA device {}, which is none", array.device_id);
      place.device = static_cast<int>(array.device_id);
      break;
    default:
      throw usage_error(
          "the Arrow array is on a device of type {}; the CPU (1), CUDA (2), CUDA's page-locked "
          "(3) and managed memory (13) are taken: copy it to one of these",
          array.device_type);
  }
  // For CUDA the specification defines sync_event as a pointer to the event.
  if (array.device_type != ARROW_DEVICE_CPU && array.sync_event)
    place.event = *static_cast<void**>(array.sync_event);
  return place;
}

/// The new value of one input. All are built before any input changes.
struct Assignment {
  std::size_t input = 0;
  std::vector<Column> columns;
  TensorView view;  // its data: the column's own, if that is read in place
  bool in_place = false;
  bool is_validity = false;  // assigns the columns' validity instead of their values
  arrow::NullValue null = arrow::NullValue::kZero;
};

std::string names_of(const std::vector<Column>& columns) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(columns.size(), kMost); ++i)
    names.push_back(columns[i].name);
  return fmt::format("{}{}", fmt::join(names, ", "), columns.size() > kMost ? ", ..." : "");
}

class Binder {
 public:
  Binder(SessionAccess::Impl& session, const BatchOptions& options, const Place& place)
      : session_(session), options_(options), place_(place) {}

  /// Assigns columns to `input`, and their validity to the input named `mask`.
  void assign(std::size_t input, std::vector<Column> columns, const std::string& mask) {
    with_context(fmt::format("input '{}'", binding(input).name), [&] {
      refuse_taken(input);
      check_types(input, columns);
      const bool masked = !mask.empty();
      const bool has_nulls = check_nulls(input, columns, masked);
      Assignment value = make(input, std::move(columns));
      const Column& first = value.columns.front();
      const bool as_it_is = value.columns.size() == 1 && !first.is_bits && !has_nulls &&
                            first.dtype == value.view.dtype;
      if (place_.on_device()) refuse_on_device(value, as_it_is, masked);
      value.in_place = as_it_is && (place_.on_device() || can_stay(value));
      if (value.in_place) {
        value.view.data = first.begin();
        value.view.memory = place_.memory;
        value.view.device = place_.device;
      }
      if (!masked && has_nulls) value.null = arrow::NullValue::kNaN;
      if (masked) {
        const std::size_t index = session_.plan.input_index(mask);
        if (index == input) throw usage_error("it is its own mask");
        refuse_taken(index);
        Assignment validity = make(index, value.columns);
        validity.is_validity = true;
        if (without_ones(validity.view.shape) != without_ones(value.view.shape))
          throw usage_error("its mask '{}' has the shape [{}], and it has [{}]", mask,
                            fmt::join(validity.view.shape, ", "),
                            fmt::join(value.view.shape, ", "));
        assignments_.push_back(std::move(validity));
      }
      assignments_.push_back(std::move(value));
    });
  }

  bool has(std::size_t input) const {
    return std::ranges::any_of(assignments_, [&](const auto& each) { return each.input == input; });
  }

  BoundBatch commit(std::int64_t rows) {
    if (place_.event) session_.executor->await_event(place_.event);
    const runtime::threads::ThreadPool::Caller caller;  // counts this thread as computing, because
                                                        // it writes columns
    BoundBatch bound{rows, {}};
    for (const Assignment& each : assignments_) {
      if (each.in_place) {
        session_.note_value(each.input, each.view, true);
        session_.executor->use_input(each.input, each.view);
        bound.in_place.push_back(each.input);
      } else {
        write(each);
      }
      session_.set_shape(each.input, each.view.shape);
    }
    return bound;
  }

 private:
  const plan::fb::BindingT& binding(std::size_t input) const {
    return *session_.meta().inputs[input];
  }
  DType dtype_of(std::size_t input) const { return static_cast<DType>(binding(input).dtype); }

  void refuse_taken(std::size_t input) const {
    if (has(input)) throw usage_error("'{}' is given columns twice", binding(input).name);
    if (runtime::state_of(session_.meta(), binding(input)))
      throw usage_error("'{}' is a state, which no column fills", binding(input).name);
  }

  void check_types(std::size_t input, const std::vector<Column>& columns) const {
    const DType wanted = dtype_of(input);
    for (const Column& column : columns) {
      if (column.dtype == wanted) continue;
      const bool possible = arrow::can_cast(column.dtype, wanted);
      if (options_.cast && possible) continue;
      throw usage_error(
          "{} is {}, and the plan takes {}: {}", column.name, to_string(column.dtype),
          to_string(wanted),
          possible ? "convert the column, or allow it (the option 'cast')" : "convert the column");
    }
  }

  /// Returns whether there are nulls; throws if they are not allowed.
  bool check_nulls(std::size_t input, const std::vector<Column>& columns, bool masked) const {
    bool any = false;
    for (const Column& column : columns) {
      const std::int64_t nulls = column.count_nulls();
      if (nulls == 0) continue;
      any = true;
      if (masked) continue;
      if (options_.nulls == Nulls::kRefused)
        throw usage_error(
            "{} has {} nulls: fill them, or let them be NaN (the option 'nulls') or given to an "
            "input of their own (the option 'mask')",
            column.name, nulls);
      if (!is_float(dtype_of(input)))
        throw usage_error(
            "{} has {} nulls, and {} has no NaN: fill them, or let them be given to an input of "
            "their own (the option 'mask')",
            column.name, nulls, to_string(dtype_of(input)));
    }
    return any;
  }

  Assignment make(std::size_t input, std::vector<Column> columns) const {
    Assignment made;
    made.input = input;
    made.view.dtype = dtype_of(input);
    std::vector<std::int64_t>& shape = made.view.shape;
    shape.push_back(columns.front().rows);
    if (columns.size() == 1) {
      shape.insert(shape.end(), columns[0].lists.begin(), columns[0].lists.end());
      if (binding(input).shape.size() == shape.size() + 1) shape.push_back(1);
    } else {
      std::int64_t width = 0;
      for (const Column& column : columns) width += column.width();
      shape.push_back(width);
    }
    with_context(names_of(columns),
                 [&] { plan::check_input_shape(session_.meta(), input, shape); });
    made.view.byte_count();
    made.columns = std::move(columns);
    return made;
  }

  static std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
    while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
    return shape;
  }

  bool can_stay(const Assignment& value) const {
    const auto address = reinterpret_cast<std::uintptr_t>(value.columns.front().begin());
    return session_.is_on_cpu() && !options_.copy && address != 0 &&
           address % size_of(value.view.dtype) == 0;
  }

  void refuse_on_device(const Assignment& value, bool as_it_is, bool masked) const {
    if (session_.is_on_cpu())
      throw usage_error("{} is in device memory; a plan for the CPU takes host memory",
                        names_of(value.columns));
    if (options_.copy)
      throw usage_error("{} is in device memory, from where no column is copied",
                        names_of(value.columns));
    if (value.columns.size() > 1)
      throw usage_error(
          "{} are {} columns in device memory, where one is read as it lies: give the rows as one "
          "column of fixed-size lists, or an array (cudf: to_cupy), or the columns in host memory",
          names_of(value.columns), value.columns.size());
    if (masked)
      throw usage_error("{} is in device memory, where no mask is made: give it in host memory",
                        names_of(value.columns));
    if (!as_it_is)
      throw usage_error(
          "{} is in device memory, where a column is read as it lies, and {}: convert it there, or "
          "give it in host memory",
          names_of(value.columns),
          value.columns.front().is_bits ? "bools are bits in Arrow and bytes in a tensor"
                                        : "its type is not the input's");
  }

  void write(const Assignment& each) {
    const std::size_t bytes = each.view.byte_count();
    MutableTensorView to{each.view.dtype, each.view.shape};
    to.data = session_.executor->stage_input(each.input, bytes);
    int threads = thread_pool_size();
    for (const int most : {session_.options.threads, options_.threads})
      if (most > 0) threads = std::min(threads, most);
    if (each.is_validity)
      arrow::write_validity(each.columns, to, threads);
    else
      arrow::write_columns(each.columns, to, each.null, threads);
    session_.note_value(each.input, to, false);
  }

  SessionAccess::Impl& session_;
  const BatchOptions& options_;
  const Place& place_;
  std::vector<Assignment> assignments_;
};

BoundBatch bind_batch(Session& session, const ArrowSchema& schema, const ArrowArray& array,
                      const Place& place, const BatchOptions& options) {
  SessionAccess::Impl& impl = *SessionAccess::impl(session);
  const arrow::Part part =
      arrow::part_of(array, options.first_row, options.rows, "the record batch");
  const arrow::RecordBatch batch(schema, array, part, place.on_device());
  Binder binder(impl, options, place);
  for (const InputColumns& each : options.inputs) {
    const std::size_t input = impl.plan.input_index(each.input);
    if (each.columns.empty())
      throw usage_error("input '{}' is given no columns: name one or more", each.input);
    std::vector<Column> columns;
    for (const std::string& name : each.columns)
      columns.push_back(
          with_context(fmt::format("input '{}'", each.input), [&] { return batch.column(name); }));
    binder.assign(input, std::move(columns), each.mask);
  }
  const auto& inputs = impl.plan.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].state || binder.has(i)) continue;
    if (batch.has(inputs[i].name)) {
      binder.assign(i, {batch.column(inputs[i].name)}, "");
    } else if (options.all_inputs || !impl.inputs[i]) {
      throw usage_error(
          "no column is called '{}' as the input is{}: say which columns it takes (the option "
          "'columns')",
          inputs[i].name, options.all_inputs ? "" : ", and the input was not set");
    }
  }
  return binder.commit(part.count);
}

BoundBatch bind_column(Session& session, std::size_t input, const ArrowSchema& schema,
                       const ArrowArray& array, const Place& place, const BatchOptions& options) {
  SessionAccess::Impl& impl = *SessionAccess::impl(session);
  checked_index(input, impl.plan.inputs().size(), "input");
  if (!options.inputs.empty())
    throw usage_error("columns are named for a single array, which has none");
  const arrow::Part part = arrow::part_of(array, options.first_row, options.rows, "the array");
  Binder binder(impl, options, place);
  binder.assign(input, {arrow::read_column(schema, array, part, "the array", place.on_device())},
                "");
  return binder.commit(part.count);
}

}  // namespace

BoundBatch bind_record_batch(Session& session, const ArrowSchema& schema, const ArrowArray& batch,
                             const BatchOptions& options) {
  const SessionAccess::Impl::Use use(SessionAccess::impl(session).get());
  return bind_batch(session, schema, batch, Place(), options);
}

BoundBatch bind_record_batch(Session& session, const ArrowSchema& schema,
                             const ArrowDeviceArray& batch, const BatchOptions& options) {
  const SessionAccess::Impl::Use use(SessionAccess::impl(session).get());
  return bind_batch(session, schema, batch.array, place_of(batch), options);
}

BoundBatch bind_array(Session& session, std::size_t input, const ArrowSchema& schema,
                      const ArrowArray& array, const BatchOptions& options) {
  const SessionAccess::Impl::Use use(SessionAccess::impl(session).get());
  return bind_column(session, input, schema, array, Place(), options);
}

BoundBatch bind_array(Session& session, std::size_t input, const ArrowSchema& schema,
                      const ArrowDeviceArray& array, const BatchOptions& options) {
  const SessionAccess::Impl::Use use(SessionAccess::impl(session).get());
  return bind_column(session, input, schema, array.array, place_of(array), options);
}

}  // namespace sinter
