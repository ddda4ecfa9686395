// SPDX-License-Identifier: Apache-2.0
#include "runtime/arrow/export_array.h"

#include <utility>

#include "runtime/format_error.h"

namespace sinter::arrow {
namespace {

std::string_view format_of(const std::string& name, DType dtype) {
  switch (dtype) {
    case DType::kBool: return "b";
    case DType::kInt8: return "c";
    case DType::kUInt8: return "C";
    case DType::kInt16: return "s";
    case DType::kUInt16: return "S";
    case DType::kInt32: return "i";
    case DType::kUInt32: return "I";
    case DType::kInt64: return "l";
    case DType::kUInt64: return "L";
    case DType::kFloat16: return "e";
    case DType::kFloat32: return "f";
    case DType::kFloat64: return "g";
    default: break;
  }
  throw usage_error(
      "output '{}' is {}, which Arrow has not: take it as a tensor (Session::output, DLPack)", name,
      to_string(dtype));
}

/// The data that a structure points to. A receiver may move children out; the release callback
/// releases the others.
template <typename Structure>
struct Holder {
  std::string format, name;
  const void* buffers[2] = {nullptr, nullptr};
  std::shared_ptr<const void> owner;
  std::vector<Structure> children;
  std::vector<Structure*> pointers;

  static void release(Structure* self) {
    const std::unique_ptr<Holder> holder(static_cast<Holder*>(self->private_data));
    for (Structure& child : holder->children)
      if (child.release) child.release(&child);
    self->release = nullptr;
  }
};

/// A structure that owns `holder` and `children`.
template <typename Structure>
Released<Structure> hold(std::unique_ptr<Holder<Structure>> holder,
                         std::vector<Released<Structure>> children) {
  Released<Structure> made;
  holder->children.reserve(children.size());
  holder->pointers.reserve(children.size());
  for (Released<Structure>& child : children) {
    holder->children.push_back(child.take());
    holder->pointers.push_back(&holder->children.back());
  }
  made.value.n_children = static_cast<std::int64_t>(children.size());
  made.value.children = holder->pointers.empty() ? nullptr : holder->pointers.data();
  made.value.private_data = holder.release();
  made.value.release = &Holder<Structure>::release;
  return made;
}

Released<ArrowSchema> schema_of(std::string format, std::string name,
                                std::vector<Released<ArrowSchema>> children) {
  auto holder = std::make_unique<Holder<ArrowSchema>>();
  holder->format = std::move(format);
  holder->name = std::move(name);
  const Holder<ArrowSchema>& held = *holder;
  Released<ArrowSchema> made = hold(std::move(holder), std::move(children));
  made.value.format = held.format.c_str();
  made.value.name = held.name.c_str();
  made.value.flags = ARROW_FLAG_NULLABLE;  // the default of Arrow's types
  return made;
}

Released<ArrowArray> array_of(std::int64_t length, std::int64_t buffers, const void* data,
                              std::shared_ptr<const void> owner,
                              std::vector<Released<ArrowArray>> children) {
  auto holder = std::make_unique<Holder<ArrowArray>>();
  holder->buffers[1] = data;
  holder->owner = std::move(owner);
  Holder<ArrowArray>& held = *holder;
  Released<ArrowArray> made = hold(std::move(holder), std::move(children));
  made.value.length = length;
  made.value.n_buffers = buffers;
  made.value.buffers = held.buffers;
  return made;
}

template <typename Structure>
std::vector<Released<Structure>> one(Released<Structure> value) {
  std::vector<Released<Structure>> values;
  values.push_back(std::move(value));
  return values;
}

}  // namespace

Released<ArrowSchema> make_schema(const std::string& name, DType dtype,
                                  const std::vector<std::int64_t>& shape) {
  const bool is_leaf = shape.size() <= 1;
  Released<ArrowSchema> schema =
      schema_of(std::string(format_of(name, dtype)), is_leaf ? name : "item", {});
  for (std::size_t d = shape.size(); d-- > 1;)
    schema =
        schema_of(fmt::format("+w:{}", shape[d]), d == 1 ? name : "item", one(std::move(schema)));
  return schema;
}

Released<ArrowArray> make_array(const std::vector<std::int64_t>& shape, const void* data,
                                std::shared_ptr<const void> owner) {
  Released<ArrowArray> array =
      array_of(detail::element_count(shape), 2, data, std::move(owner), {});
  std::int64_t length = array.value.length;
  for (std::size_t d = shape.size(); d-- > 1;) {
    length = 1;
    for (std::size_t k = 0; k < d; ++k) length *= shape[k];
    array = array_of(length, 1, nullptr, nullptr, one(std::move(array)));
  }
  return array;
}

Released<ArrowSchema> make_struct_schema(std::vector<Released<ArrowSchema>> fields) {
  return schema_of("+s", "", std::move(fields));
}

Released<ArrowArray> make_struct_array(std::int64_t rows,
                                       std::vector<Released<ArrowArray>> fields) {
  return array_of(rows, 1, nullptr, nullptr, std::move(fields));
}

}  // namespace sinter::arrow
