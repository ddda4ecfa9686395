// SPDX-License-Identifier: Apache-2.0
#include "tools/python/src/caller.h"

#include <algorithm>
#include <cstring>

#include "runtime/format_error.h"
#include "tools/python/src/gil.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

constexpr std::size_t kMostShapes = 256;  // maximum number of remembered input shapes

[[noreturn]] void refuse_call(std::string message) { throw usage_error(std::move(message)); }

std::string_view text_of(nb::handle name) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
  if (data == nullptr) throw nb::python_error();
  return {data, static_cast<std::size_t>(size)};
}

bool overlap(const Array& a, const Array& b) {
  if (a.on_device() != b.on_device()) return false;
  const std::size_t first_bytes = a.view().byte_count(), second_bytes = b.view().byte_count();
  if (first_bytes == 0 || second_bytes == 0) return false;
  const auto first = reinterpret_cast<std::uintptr_t>(a.view().data);
  const auto second = reinterpret_cast<std::uintptr_t>(b.view().data);
  return first < second + second_bytes && second < first + first_bytes;
}

}  // namespace

Caller::Caller(Plan plan) : plan_(std::move(plan)), cuda_(plan_.target() == "cuda") {
  const auto& inputs = plan_.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    input_names_.emplace(inputs[i].name, i);
    labels_.push_back(fmt::format("input '{}'", inputs[i].name));
    if (!inputs[i].state) arguments_.push_back(i);
  }
  nb::list names;
  const auto& outputs = plan_.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].state) continue;
    results_.push_back(i);
    names.append(text(outputs[i].name));
  }
  result_names_ = nb::tuple(names);
  outputs_type_ = nb::module_::import_("pysinter._arrays").attr("Outputs");
}

std::size_t Caller::find_input(std::string_view name) const {
  const auto found = input_names_.find(name);
  return found != input_names_.end() ? found->second : plan_.input_index(name);  // throws
}

Call Caller::read(nb::args positions, nb::kwargs names, bool all) const {
  Call call;
  const auto& inputs = plan_.inputs();
  call.inputs.resize(inputs.size());
  bool first = true;
  const auto take = [&](std::size_t index, nb::handle value) {
    Array& array = call.inputs[index];
    if (array) refuse_call(labels_[index] + " is given twice");
    array = Array::read(value, labels_[index]);
    if (array.on_device() && !std::exchange(call.on_device, true)) {
      call.device = array.view().device < 0 ? 0 : array.view().device;
      call.library = array.library();
    } else if (array.on_device() && array.library() != call.library) {
      // Each library has its own current stream, and a call uses only one.
      refuse_call(
          "inputs are in GPU memory of torch and of CuPy: give all as one library's "
          "(torch.from_dlpack, cupy.from_dlpack)");
    } else if (first) {
      call.library = array.library();
    }
    first = false;
  };
  if (positions.size() > arguments_.size())
    refuse_call(fmt::format("{} positional inputs given, and the plan takes {}", positions.size(),
                            arguments_.size()));
  for (std::size_t i = 0; i < positions.size(); ++i) take(arguments_[i], positions[i]);
  nb::handle out;
  for (const auto [name, value] : names) {
    const std::string_view word = text_of(name);
    if (word == "out" && !input_names_.contains(word))
      out = value;
    else
      take(find_input(word), value);
  }
  if (all)
    for (const std::size_t index : arguments_)
      if (!call.inputs[index])
        refuse_call(fmt::format("input '{}' is missing: it takes {}", inputs[index].name,
                                python_name(inputs[index].dtype)));
  if (call.on_device && !cuda_)
    refuse_call(
        "an input is in GPU memory, and the plan is for the CPU: give it as tensor.cpu(), or "
        "compile with target='cuda'");
  if (out.is_valid() && !out.is_none()) {
    read_out(call, out);
    check_overlaps(call, call.inputs);
  }
  if (call.on_device) call.stream = current_stream(call.library, call.device);
  for (const Array& array : call.inputs) {
    if (!array) {
      call.key.push_back(-1);
      continue;
    }
    const auto& shape = array.view().shape;
    call.key.push_back(std::ssize(shape));
    call.key.insert(call.key.end(), shape.begin(), shape.end());
  }
  return call;
}

void Caller::read_out(Call& call, nb::handle out) const {
  const auto& outputs = plan_.outputs();
  call.out.resize(results_.size());
  call.out_objects.resize(results_.size());
  const auto take = [&](std::size_t place, nb::handle value) {
    if (value.is_none()) return;
    const BindingInfo& info = outputs[results_[place]];
    Array array = Array::write(value, fmt::format("out for '{}'", info.name));
    if (array.on_device() && !cuda_)
      refuse_call(
          fmt::format("out for '{}' is in GPU memory, and the plan is for the CPU", info.name));
    if (array.on_device() != call.on_device)
      refuse_call(fmt::format(
          "out for '{}' is in {} memory, and the inputs are in {} memory: both must be in the same",
          info.name, array.on_device() ? "GPU" : "host", call.on_device ? "GPU" : "host"));
    for (std::size_t other = 0; other < call.out.size(); ++other)
      if (call.out[other] && overlap(array, call.out[other]))
        refuse_call(fmt::format("out for '{}' overlaps with out for '{}'", info.name,
                                outputs[results_[other]].name));
    call.out[place] = std::move(array);
    call.out_objects[place] = nb::borrow(value);
  };
  if (nb::isinstance<nb::dict>(out)) {
    for (const auto [name, value] : nb::borrow<nb::dict>(out)) {
      const std::size_t index = plan_.output_index(text_of(name));
      const auto place = std::ranges::find(results_, index);
      if (place == results_.end())
        refuse_call(fmt::format("output '{}' is a state, which sessions keep themselves",
                                outputs[index].name));
      take(static_cast<std::size_t>(place - results_.begin()), value);
    }
  } else if (nb::isinstance<nb::list>(out) || nb::isinstance<nb::tuple>(out)) {
    const nb::object values = nb::steal(PySequence_Tuple(out.ptr()));
    const std::size_t count = nb::len(values);
    if (count != results_.size())
      refuse_call(
          fmt::format("out has {} arrays, and the plan returns {}", count, results_.size()));
    for (std::size_t i = 0; i < count; ++i) take(i, values[i]);
  } else {
    if (results_.size() != 1)
      refuse_call(
          fmt::format("out is one array, and the plan returns {}: give a list, or a dict by name",
                      results_.size()));
    take(0, out);
  }
}

void Caller::check_overlaps(const Call& call, const std::vector<Array>& inputs) const {
  for (std::size_t place = 0; place < call.out.size(); ++place)
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (call.out[place] && inputs[i] && (&inputs == &call.inputs || !call.inputs[i]) &&
          overlap(call.out[place], inputs[i]))
        refuse_call(
            fmt::format("out for '{}' overlaps with {}: steps would read what others have written",
                        plan_.outputs()[results_[place]].name, labels_[i]));
}

void Caller::make_results(Call& call) const {
  if (call.on_device) return;  // see take_results
  const auto known = shapes_.find(call.key);
  if (known == shapes_.end()) return;
  call.made.resize(results_.size());
  for (std::size_t place = 0; place < results_.size(); ++place) {
    if (place < call.out.size() && call.out[place]) continue;
    call.made[place] =
        make_array(call.library, plan_.outputs()[results_[place]].dtype, known->second[place]);
  }
}

void Caller::run(Session& session, Call& call, Keep keep) const {
  const auto& inputs = plan_.inputs();
  for (std::size_t i = 0; i < call.inputs.size(); call.inputs_set = ++i) {
    if (!call.inputs[i]) continue;
    // A CUDA session copies host memory, and reads device memory in place.
    const bool in_place = keep == Keep::kForRun && !cuda_ && !inputs[i].state;
    if (in_place)
      session.use_input(i, call.inputs[i].view());
    else
      session.set_input(i, call.inputs[i].view());
  }
  for (std::size_t place = 0; place < results_.size(); call.outputs_set = ++place) {
    const std::size_t output = results_[place];
    if (place < call.out.size() && call.out[place])
      session.set_output(output, call.out[place].view());
    else if (place < call.made.size())
      session.set_output(output, call.made[place].view);
    else
      session.set_output(output, MutableTensorView{});
  }
  if (call.on_device)
    session.run_async(call.stream);
  else
    session.run();
}

nb::object Caller::copy_output(Library library, const TensorView& view) {
  NewArray array = make_array(library, view.dtype, view.shape);
  const std::size_t bytes = view.byte_count();
  if (bytes > 0) {
    GilReleased release;
    std::memcpy(array.view.data, view.data, bytes);
  }
  return array.object;
}

nb::object Caller::take_results(Session& session, Call& call) {
  std::vector<nb::object> values(results_.size());
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::size_t place = 0; place < results_.size(); ++place) {
    if (place < call.out.size() && call.out[place]) {
      shapes.push_back(call.out[place].view().shape);
      values[place] = call.out_objects[place];
      continue;
    }
    if (place < call.made.size()) {
      values[place] = std::move(call.made[place].object);
      continue;
    }
    const std::size_t output = results_[place];
    if (call.on_device) {
      // A new result array would be a new address, for which the session would prepare the run
      // again: instead its own memory is copied, in stream order.
      values[place] = copy_device_output(call.library, session, output);
      continue;
    }
    const TensorView& view = session.output(output);
    shapes.push_back(view.shape);
    values[place] = copy_output(call.library, view);
  }
  if (!call.on_device && call.made.empty() && !call.key.empty()) {
    if (shapes_.size() >= kMostShapes) shapes_.clear();
    shapes_.emplace(std::move(call.key), std::move(shapes));
  }
  if (values.size() == 1) return values[0];
  nb::list list;
  for (const nb::object& value : values) list.append(value);
  return outputs_type_(list, result_names_);
}

}  // namespace sinter::python
