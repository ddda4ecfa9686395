// SPDX-License-Identifier: Apache-2.0
// Exports a session's outputs as Arrow arrays: sinter/arrow.h.
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <sinter/arrow.h>
#include <sinter/session.h>

#include "runtime/arrow/export_array.h"
#include "runtime/format_error.h"
#include "runtime/session_access.h"

namespace sinter {
namespace {

using arrow::Released;

/// The alignment that Arrow recommends for buffers.
constexpr std::size_t kAlignment = 64;

struct Exported {
  Released<ArrowSchema> schema;
  Released<ArrowArray> array;
  TensorView view;
};

std::shared_ptr<std::byte> host_memory(std::size_t bytes, const std::string& name) {
  const std::align_val_t alignment{kAlignment};
  void* data = ::operator new(std::max(bytes, kAlignment), alignment, std::nothrow);
  if (!data)
    throw Error(ErrorCode::kOutOfMemory,
                fmt::format("output '{}' needs {:.1f} MiB for its Arrow array: use a smaller batch",
                            name, static_cast<double>(bytes) / (1 << 20)));
  return {static_cast<std::byte*>(data),
          [alignment](std::byte* memory) { ::operator delete(memory, alignment); }};
}

/// A copy, with bools packed into bits.
std::shared_ptr<std::byte> copy_of(const TensorView& view, const std::string& name) {
  const std::size_t bytes = view.byte_count();
  if (view.dtype != DType::kBool) {
    std::shared_ptr<std::byte> copy = host_memory(bytes, name);
    if (bytes > 0) std::memcpy(copy.get(), view.data, bytes);
    return copy;
  }
  std::shared_ptr<std::byte> bits = host_memory((bytes + 7) / 8, name);
  std::memset(bits.get(), 0, (bytes + 7) / 8);
  const auto* bools = static_cast<const std::uint8_t*>(view.data);
  for (std::size_t i = 0; i < bytes; ++i)
    if (bools[i]) bits.get()[i / 8] |= std::byte{1} << (i % 8);
  return bits;
}

Exported export_one(const std::shared_ptr<SessionAccess::Impl>& impl, std::size_t output,
                    bool may_lend) {
  Exported made;
  made.view = impl->output(output);
  const std::string& name = impl->meta().outputs[output]->name;
  made.schema = arrow::make_schema(name, made.view.dtype, made.view.shape);
  if (made.view.memory == Memory::kHost) {
    std::shared_ptr<std::byte> copy = copy_of(made.view, name);
    const void* data = copy.get();
    made.array = arrow::make_array(made.view.shape, data, std::move(copy));
    return made;
  }
  if (!may_lend)
    throw usage_error(
        "output '{}' is in device memory, and an ArrowArray is in host memory: take an "
        "ArrowDeviceArray, or a session with outputs on the host (SessionOptions::output_memory)",
        name);
  if (made.view.dtype == DType::kBool)
    throw usage_error(
        "output '{}' is bool, which is bits in Arrow and bytes on the GPU: take it in host memory, "
        "or as a tensor (Session::output, DLPack)",
        name);
  if (impl->running) impl->await();
  made.array = arrow::make_array(made.view.shape, made.view.data,
                                 std::make_shared<const SessionLoan>(impl, output));
  return made;
}

Exported export_all(const std::shared_ptr<SessionAccess::Impl>& impl, bool may_lend) {
  std::vector<Released<ArrowSchema>> schemas;
  std::vector<Released<ArrowArray>> arrays;
  Exported all;
  std::string first;
  std::int64_t rows = 0;
  const auto& outputs = impl->plan.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].state) continue;
    Exported one = export_one(impl, i, may_lend);
    const auto& shape = one.view.shape;
    if (first.empty()) {
      first = outputs[i].name;
      rows = shape.empty() ? 1 : shape[0];
    }
    if (shape.empty() || shape[0] != rows)
      throw usage_error(
          "output '{}' has the shape [{}], and a record batch has {} rows in every column, as "
          "output '{}' has: export outputs by themselves (export_output)",
          outputs[i].name, fmt::join(shape, ", "), rows, first);
    all.view = one.view;
    schemas.push_back(std::move(one.schema));
    arrays.push_back(std::move(one.array));
  }
  all.schema = arrow::make_struct_schema(std::move(schemas));
  all.array = arrow::make_struct_array(rows, std::move(arrays));
  return all;
}

void hand_over(Exported made, ArrowSchema* schema, ArrowArray* array) {
  *schema = made.schema.take();
  *array = made.array.take();
}

void hand_over(Exported made, ArrowSchema* schema, ArrowDeviceArray* array) {
  *array = {};
  const bool on_device = made.view.memory == Memory::kDevice;
  array->device_type = on_device ? ARROW_DEVICE_CUDA : ARROW_DEVICE_CPU;
  array->device_id = on_device ? made.view.device : -1;
  hand_over(std::move(made), schema, &array->array);
}

template <typename Array, typename Export>
void export_to(Session& session, ArrowSchema* schema, Array* array, const Export& make) {
  if (!schema || !array) throw usage_error("an Arrow array is exported to no structure");
  const std::shared_ptr<SessionAccess::Impl>& impl = SessionAccess::impl(session);
  const SessionAccess::Impl::Use use(impl.get());
  hand_over(make(impl), schema, array);
}

}  // namespace

void export_output(Session& session, std::size_t output, ArrowSchema* schema, ArrowArray* array) {
  export_to(session, schema, array,
            [&](const auto& impl) { return export_one(impl, output, false); });
}

void export_output(Session& session, std::size_t output, ArrowSchema* schema,
                   ArrowDeviceArray* array) {
  export_to(session, schema, array,
            [&](const auto& impl) { return export_one(impl, output, true); });
}

void export_outputs(Session& session, ArrowSchema* schema, ArrowArray* batch) {
  export_to(session, schema, batch, [&](const auto& impl) { return export_all(impl, false); });
}

void export_outputs(Session& session, ArrowSchema* schema, ArrowDeviceArray* batch) {
  export_to(session, schema, batch, [&](const auto& impl) { return export_all(impl, true); });
}

}  // namespace sinter
