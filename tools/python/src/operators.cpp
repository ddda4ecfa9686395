// SPDX-License-Identifier: Apache-2.0
// Libraries of host operators: shared libraries, and functions of Python's.
#include "tools/python/src/operators.h"

#include <cstring>
#include <deque>

#include <nanobind/stl/vector.h>
#include <sinter/operators.h>

#include "runtime/format_error.h"
#include "tools/python/src/arrays.h"
#include "tools/python/src/gil.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

/// A Python function from arrays and a dict of attributes to a sequence of arrays.
struct PythonOperator {
  std::string name;
  nb::object function;
};

std::vector<std::int64_t> shape_of(const sinter_operator_tensor& tensor) {
  return {tensor.shape, tensor.shape + tensor.rank};
}

/// Copies a result to the output's memory. Throws Error(kUsage) if its type or shape differs.
void put(const sinter_operator_call& call, std::size_t i, nb::handle result) {
  const sinter_operator_tensor& output = call.outputs[i];
  const auto dtype = static_cast<DType>(output.dtype);
  const Array array = Array::read(result, fmt::format("result {}", i));
  const MutableTensorView& view = array.view();
  const auto shape = shape_of(output);
  if (array.on_device())
    throw usage_error("result {} is in GPU memory, and it is to be in host memory", i);
  if (view.dtype != dtype || !std::ranges::equal(view.shape, shape))
    throw usage_error("result {} is {}[{}], and the plan has {}[{}] for it", i,
                      python_name(view.dtype), fmt::join(view.shape, ", "), python_name(dtype),
                      fmt::join(shape, ", "));
  if (const std::size_t bytes = view.byte_count(); bytes > 0)
    std::memcpy(output.data, view.data, bytes);
}

void compute(const PythonOperator& of, const sinter_operator_call& call) {
  // Copies, because the function may keep the arrays while the session's memory changes.
  nb::list inputs;
  for (std::size_t i = 0; i < call.input_count; ++i) {
    const sinter_operator_tensor& input = call.inputs[i];
    NewArray array = make_array(Library::kNumpy, static_cast<DType>(input.dtype), shape_of(input));
    if (const std::size_t bytes = array.view.byte_count(); bytes > 0)
      std::memcpy(array.view.data, input.data, bytes);
    inputs.append(array.object);
  }
  nb::dict attributes;
  for (std::size_t i = 0; i < call.attribute_count; ++i) {
    const sinter_operator_attribute& attribute = call.attributes[i];
    if (attribute.is_float != 0)
      attributes[attribute.name] = attribute.real;
    else
      attributes[attribute.name] = attribute.integer;
  }
  const nb::object results = of.function(inputs, attributes);
  if (nb::len(results) != call.output_count)
    throw usage_error("it returned {} arrays, and the plan has {} outputs", nb::len(results),
                      call.output_count);
  for (std::size_t i = 0; i < call.output_count; ++i) put(call, i, results[i]);
}

std::int32_t run(const sinter_operator_call* call) {
  const auto tell = [&](std::string_view message) {
    const std::size_t size = std::min(message.size(), call->message_size - 1);
    std::memcpy(call->message, message.data(), size);
    call->message[size] = '\0';
    return 1;
  };
  const GilIfOpen acquire;
  if (!acquire) return tell("the interpreter has ended");
  try {
    compute(*static_cast<const PythonOperator*>(call->user), *call);
    return 0;
  } catch (nb::python_error& error) {
    return tell(fmt::format("{}: {}", nb::cast<std::string>(error.type().attr("__name__")),
                            nb::cast<std::string>(nb::str(error.value()))));
  } catch (const std::exception& error) {
    return tell(error.what());
  }
}

OperatorLibrary of_functions(const nb::dict& functions) {
  struct Owned {
    std::deque<PythonOperator> operators;
    std::vector<sinter_operator> table;
  };
  // Releases Python objects with the GIL; leaks them if the interpreter has ended.
  const std::shared_ptr<Owned> owned(new Owned, [](Owned* last) {
    const GilIfOpen acquire;
    if (!acquire) return;
    delete last;
  });
  for (const auto& [name, function] : functions) {
    PythonOperator& one = owned->operators.emplace_back();
    one.name = nb::cast<std::string>(name);
    one.function = nb::borrow(function);
    owned->table.push_back({one.name.c_str(), &one, nullptr, nullptr, &run, nullptr});
  }
  return OperatorLibrary::of_table({SINTER_OPERATOR_ABI_VERSION, sizeof(sinter_operator),
                                    owned->table.size(), owned->table.data()},
                                   "functions of Python's", owned);
}

}  // namespace

void bind_operators(nb::module_& module) {
  nb::class_<OperatorLibrary>(module, "OperatorLibrary")
      .def_static("open", &OperatorLibrary::open, nb::arg("path"))
      .def_static("of_functions", &of_functions, nb::arg("functions"))
      .def_prop_ro("name", [](const OperatorLibrary& self) { return text(self.name()); })
      .def_prop_ro("operators", [](const OperatorLibrary& self) {
        nb::list names;
        for (const sinter_operator& one : self.operators()) names.append(text(one.name));
        return names;
      });
}

}  // namespace sinter::python
