// SPDX-License-Identifier: Apache-2.0
#include "tools/python/src/tables.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "runtime/arrow/export_array.h"
#include "runtime/format_error.h"
#include "tools/python/src/arrays.h"
#include "tools/python/src/gil.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

// ---- structures that share a held structure's data, for receivers that release theirs

template <typename Structure, typename Owner>
struct Shared {
  std::shared_ptr<const Owner> owner;
  std::vector<Structure> children;
  std::vector<Structure*> pointers;
  Structure dictionary{};

  static void release(Structure* self) {
    const std::unique_ptr<Shared> shared(static_cast<Shared*>(self->private_data));
    for (Structure& child : shared->children)
      if (child.release) child.release(&child);
    if (shared->dictionary.release) shared->dictionary.release(&shared->dictionary);
    self->release = nullptr;
  }
};

template <typename Structure, typename Owner>
Structure share(const Structure& from, const std::shared_ptr<const Owner>& owner) {
  auto shared = std::make_unique<Shared<Structure, Owner>>();
  shared->owner = owner;
  Structure copy = from;
  for (std::int64_t i = 0; i < from.n_children; ++i)
    shared->children.push_back(share(*from.children[i], owner));
  for (Structure& child : shared->children) shared->pointers.push_back(&child);
  copy.children = shared->pointers.empty() ? nullptr : shared->pointers.data();
  if (from.dictionary) {
    shared->dictionary = share(*from.dictionary, owner);
    copy.dictionary = &shared->dictionary;
  }
  copy.private_data = shared.release();
  copy.release = &Shared<Structure, Owner>::release;
  return copy;
}

ArrowSchema share_schema(const std::shared_ptr<const HeldSchema>& held) {
  return share(held->schema, held);
}
ArrowArray share_array(const std::shared_ptr<const HeldBatch>& held) {
  return share(held->array.array, held);
}

// ---- capsules

ArrowArray& array_in(ArrowArray& array) { return array; }
ArrowArray& array_in(ArrowDeviceArray& array) { return array.array; }
ArrowSchema& array_in(ArrowSchema& schema) { return schema; }
ArrowArrayStream& array_in(ArrowArrayStream& stream) { return stream; }

template <typename Structure>
nb::object make_capsule(Structure value, const char* name) {
  auto owned = std::make_unique<Structure>(value);
  nb::object capsule = nb::steal(PyCapsule_New(owned.get(), name, [](PyObject* object) {
    auto* held = static_cast<Structure*>(PyCapsule_GetPointer(object, PyCapsule_GetName(object)));
    auto& inner = array_in(*held);
    if (inner.release) inner.release(&inner);
    delete held;
  }));
  if (!capsule.is_valid()) {
    array_in(*owned).release(&array_in(*owned));
    throw nb::python_error();
  }
  owned.release();
  return capsule;
}

/// Moves the structure out of a capsule.
template <typename Structure>
Structure take_capsule(nb::handle capsule, const char* name) {
  auto* held = static_cast<Structure*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (held == nullptr) throw nb::python_error();
  auto& inner = array_in(*held);
  if (inner.release == nullptr) throw usage_error("an Arrow structure was taken before");
  const Structure taken = *held;
  inner.release = nullptr;
  return taken;
}

std::shared_ptr<const HeldSchema> hold_schema(const ArrowSchema& schema) {
  auto held = std::make_shared<HeldSchema>();
  held->schema = schema;
  return held;
}

BatchObject hold_batch(std::shared_ptr<const HeldSchema> schema, const ArrowDeviceArray& array) {
  auto held = std::make_shared<HeldBatch>();
  held->array = array;
  held->schema = std::move(schema);
  return {held};
}

BatchObject batch_of_capsules(nb::handle schema, nb::handle array) {
  auto held = hold_schema(take_capsule<ArrowSchema>(schema, "arrow_schema"));
  if (PyCapsule_IsValid(array.ptr(), "arrow_device_array"))
    return hold_batch(std::move(held), take_capsule<ArrowDeviceArray>(array, "arrow_device_array"));
  ArrowDeviceArray on_host{{}, -1, ARROW_DEVICE_CPU, nullptr, {}};
  on_host.array = take_capsule<ArrowArray>(array, "arrow_array");
  return hold_batch(std::move(held), on_host);
}

// ---- streams

class BatchReader {
 public:
  explicit BatchReader(nb::handle capsule)
      : stream_(take_capsule<ArrowArrayStream>(capsule, "arrow_array_stream")) {
    auto held = std::make_shared<HeldSchema>();
    int status = 0;
    {
      GilReleased release;
      status = stream_.get_schema(&stream_, &held->schema);
    }
    check(status);
    schema_ = held;
  }
  ~BatchReader() {
    if (stream_.release) stream_.release(&stream_);
  }
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// Nullopt at the end.
  std::optional<BatchObject> next() {
    ArrowDeviceArray array{{}, -1, ARROW_DEVICE_CPU, nullptr, {}};
    int status = 0;
    {
      GilReleased release;
      status = stream_.get_next(&stream_, &array.array);
    }
    check(status);
    if (array.array.release == nullptr) return std::nullopt;
    return hold_batch(schema_, array);
  }

 private:
  void check(int status) {
    if (status == 0) return;
    const char* message = stream_.get_last_error ? stream_.get_last_error(&stream_) : nullptr;
    throw usage_error("the table's stream failed: {}",
                      message && *message ? message : std::strerror(status));
  }

  ArrowArrayStream stream_;
  std::shared_ptr<const HeldSchema> schema_;
};

/// A stream over existing batches.
struct StreamState {
  std::shared_ptr<const HeldSchema> schema;
  std::vector<std::shared_ptr<const HeldBatch>> batches;
  std::size_t next = 0;
};

template <typename Body>
int in_stream(ArrowArrayStream* stream, const Body& body) {
  try {
    body(*static_cast<StreamState*>(stream->private_data));
    return 0;
  } catch (const std::exception&) {
    return ENOMEM;
  }
}

nb::object make_stream(const BatchObject& first, const std::vector<BatchObject>& batches) {
  auto state = std::make_unique<StreamState>();
  state->schema = first.held->schema;
  for (const BatchObject& batch : batches) {
    if (batch.held->array.device_type != ARROW_DEVICE_CPU)
      throw usage_error("a batch in device memory has no stream: take __arrow_c_device_array__");
    state->batches.push_back(batch.held);
  }
  ArrowArrayStream stream{};
  stream.get_schema = [](ArrowArrayStream* self, ArrowSchema* out) {
    return in_stream(self, [&](StreamState& held) { *out = share_schema(held.schema); });
  };
  stream.get_next = [](ArrowArrayStream* self, ArrowArray* out) {
    return in_stream(self, [&](StreamState& held) {
      *out =
          held.next < held.batches.size() ? share_array(held.batches[held.next++]) : ArrowArray{};
    });
  };
  stream.get_last_error = [](ArrowArrayStream*) -> const char* { return "out of memory"; };
  stream.release = [](ArrowArrayStream* self) {
    delete static_cast<StreamState*>(self->private_data);
    self->release = nullptr;
  };
  stream.private_data = state.release();
  return make_capsule(stream, "arrow_array_stream");
}

// ---- batches of arrays

/// Python arrays, and bits packed from bools, as a batch's columns.
struct ColumnMemory {
  std::vector<Array> arrays;
  std::vector<std::vector<std::uint8_t>> bits;

  static std::shared_ptr<ColumnMemory> make() {
    return {new ColumnMemory(), [](ColumnMemory* memory) {
              const GilIfOpen acquire;  // after the interpreter's end its objects no longer exist
              if (!acquire) return;
              delete memory;
            }};
  }
  /// Packed bits, kept as long as this object.
  std::vector<std::uint8_t>& pack(const std::uint8_t* bools, std::size_t count) {
    std::vector<std::uint8_t>& packed = bits.emplace_back((count + 7) / 8);
    for (std::size_t i = 0; i < count; ++i)
      packed[i / 8] = static_cast<std::uint8_t>(packed[i / 8] | (bools[i] != 0) << (i % 8));
    return packed;
  }
};

BatchObject batch_of_arrays(const std::vector<std::string>& names, nb::list values,
                            nb::list validity) {
  auto memory = ColumnMemory::make();
  memory->bits.reserve(2 * names.size());
  memory->arrays.reserve(2 * names.size());
  std::vector<arrow::Released<ArrowSchema>> schemas;
  std::vector<arrow::Released<ArrowArray>> arrays;
  std::int64_t rows = 0;
  const auto read = [&](nb::handle value, const std::string& what) -> const MutableTensorView& {
    const Array& array = memory->arrays.emplace_back(Array::read(value, what));
    if (array.on_device()) throw usage_error("{} is in GPU memory", what);
    return array.view();
  };
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string what = fmt::format("column '{}'", names[i]);
    const MutableTensorView& view = read(values[i], what);
    if (view.shape.empty()) throw usage_error("{} is a single value", what);
    if (i == 0) rows = view.shape[0];
    if (view.shape[0] != rows)
      throw usage_error("{} has {} rows, and column '{}' has {}", what, view.shape[0], names[0],
                        rows);
    const void* data = view.data;
    if (view.dtype == DType::kBool)
      data = memory
                 ->pack(static_cast<const std::uint8_t*>(data),
                        static_cast<std::size_t>(view.element_count()))
                 .data();
    schemas.push_back(arrow::make_schema(names[i], view.dtype, view.shape));
    arrays.push_back(arrow::make_array(view.shape, data, memory));
    const nb::handle valid = validity[i];
    if (valid.is_none()) continue;
    const MutableTensorView& there = read(valid, "what is there of " + what);
    if (there.dtype != DType::kBool || there.shape != std::vector<std::int64_t>{rows})
      throw usage_error("what is there of {} is no array of {} bools", what, rows);
    const auto* bools = static_cast<const std::uint8_t*>(there.data);
    arrays.back().value.buffers[0] = memory->pack(bools, static_cast<std::size_t>(rows)).data();
    arrays.back().value.null_count = std::count(bools, bools + rows, 0);
  }
  ArrowDeviceArray batch{{}, -1, ARROW_DEVICE_CPU, nullptr, {}};
  auto schema = hold_schema(arrow::make_struct_schema(std::move(schemas)).take());
  batch.array = arrow::make_struct_array(rows, std::move(arrays)).take();
  return hold_batch(std::move(schema), batch);
}

nb::list names_of(const BatchObject& batch) {
  const ArrowSchema& schema = batch.held->schema->schema;
  nb::list names;
  for (std::int64_t i = 0; i < schema.n_children; ++i)
    names.append(text(schema.children[i]->name ? schema.children[i]->name : ""));
  return names;
}

}  // namespace

void bind_tables(nb::module_& module) {
  nb::class_<BatchObject>(module, "Batch")
      .def_prop_ro("rows", [](const BatchObject& self) { return self.held->array.array.length; })
      .def_prop_ro("names", &names_of)
      .def("__arrow_c_schema__",
           [](const BatchObject& self) {
             return make_capsule(share_schema(self.held->schema), "arrow_schema");
           })
      .def(
          "__arrow_c_array__",
          [](const BatchObject& self, nb::object) {
            if (self.held->array.device_type != ARROW_DEVICE_CPU)
              throw usage_error("the batch is in device memory: take __arrow_c_device_array__");
            return nb::make_tuple(make_capsule(share_schema(self.held->schema), "arrow_schema"),
                                  make_capsule(share_array(self.held), "arrow_array"));
          },
          nb::arg("requested_schema").none() = nb::none())
      .def(
          "__arrow_c_device_array__",
          [](const BatchObject& self, nb::object, nb::kwargs) {
            ArrowDeviceArray array = self.held->array;
            array.array = share_array(self.held);
            return nb::make_tuple(make_capsule(share_schema(self.held->schema), "arrow_schema"),
                                  make_capsule(array, "arrow_device_array"));
          },
          nb::arg("requested_schema").none() = nb::none(), nb::arg("kwargs"));
  nb::class_<BatchReader>(module, "BatchReader")
      .def(nb::init<nb::handle>(), nb::arg("stream"))
      .def("next", &BatchReader::next);
  module.def("batch_of_capsules", &batch_of_capsules, nb::arg("schema"), nb::arg("array"));
  module.def("batch_of_arrays", &batch_of_arrays, nb::arg("names"), nb::arg("arrays"),
             nb::arg("valid"));
  module.def("make_stream", &make_stream, nb::arg("first"), nb::arg("batches"));
}

}  // namespace sinter::python
