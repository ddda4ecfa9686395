// SPDX-License-Identifier: Apache-2.0
#include "runtime/operators/host_operators.h"

#include <array>
#include <cstring>

#include <fmt/ranges.h>
#include <sinter/dtype.h>

#include "runtime/format_error.h"

namespace sinter::runtime {

HostOperators::HostOperators(std::vector<OperatorLibrary> libraries)
    : libraries_(std::move(libraries)) {}

const sinter_operator* HostOperators::find(std::string_view name) const {
  for (const OperatorLibrary& library : libraries_)
    for (const sinter_operator& one : library.operators())
      if (name == one.name) return &one;
  return nullptr;
}

void HostOperators::check(const plan::fb::PlanT& plan) const {
  const bool cuda = plan.target == "cuda";
  std::vector<std::string> wrong;
  for (const auto& step : plan.steps) {
    const plan::fb::HostStepT* host = step->work.AsHostStep();
    if (host == nullptr) continue;
    const sinter_operator* found = find(host->operator_name);
    std::string line;
    if (found == nullptr)
      line = fmt::format("'{}'{}", host->operator_name,
                         host->library.empty() ? "" : fmt::format(" (of '{}')", host->library));
    else if (cuda ? found->enqueue == nullptr : found->run == nullptr)
      line = fmt::format("'{}', whose library has no '{}' for it", host->operator_name,
                         cuda ? "enqueue" : "run");
    else
      continue;
    if (std::ranges::find(wrong, line) == wrong.end()) wrong.push_back(std::move(line));
  }
  if (wrong.empty()) return;
  std::vector<std::string> names;
  for (const OperatorLibrary& library : libraries_) names.push_back("'" + library.name() + "'");
  throw usage_error(
      "the plan is for {} and has operators that a library of yours computes there: {}. {}: name "
      "the "
      "library that has them (--op-library FILE, LoadOptions::operator_libraries){}",
      cuda ? "GPUs" : "the CPU", fmt::join(wrong, ", "),
      names.empty() ? "No library was named" : fmt::format("Named were {}", fmt::join(names, ", ")),
      cuda ? ", or compile the model with --target=cpu if it has 'run' alone"
           : ", or compile the model with --target=cuda if it has 'enqueue' alone");
}

struct HostCall::Impl {
  const sinter_operator* of = nullptr;
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::uint32_t> buffers;           // of inputs, then of outputs
  std::vector<sinter_operator_tensor> tensors;  // the same
  std::vector<sinter_operator_attribute> attributes;
  sinter_operator_call call{};
  std::size_t workspace_bytes = 0;

  /// Calls a function of the operator's, and turns what it says into an error.
  template <typename Function>
  void checked(const char* what, sinter_operator_call now, const Function& function) const {
    std::array<char, 512> message{};
    now.message = message.data();
    now.message_size = message.size();
    const std::int32_t code = function(&now);
    if (code == 0) return;
    message.back() = '\0';
    throw device_error("operator '{}': its '{}' failed with code {}{}{}", of->name, what, code,
                       message[0] == '\0' ? "" : ": ", message.data());
  }

  void check_shapes() const {
    if (of->infer_shapes == nullptr) return;
    const std::size_t inputs = call.input_count;
    std::vector<std::vector<std::int64_t>> own;
    for (std::size_t i = inputs; i < shapes.size(); ++i) own.emplace_back(shapes[i].size(), -1);
    std::vector<std::int64_t*> rows;
    rows.reserve(own.size());
    for (auto& shape : own) rows.push_back(shape.data());
    checked("infer_shapes", call,
            [&](const sinter_operator_call* now) { return of->infer_shapes(now, rows.data()); });
    for (std::size_t i = 0; i < own.size(); ++i)
      if (own[i] != shapes[inputs + i])
        throw usage_error(
            "operator '{}': output {} has the sizes [{}] in the plan, and [{}] by the library's "
            "'infer_shapes': compile the model with the definition (--op) that the library is for",
            of->name, i, fmt::join(shapes[inputs + i], ", "), fmt::join(own[i], ", "));
  }
};

HostCall::HostCall(const plan::fb::PlanT& plan, const plan::fb::HostStepT& step,
                   std::span<const std::int64_t> expressions, const HostOperators& operators)
    : impl_(std::make_unique<Impl>()) {
  Impl& made = *impl_;
  made.of = operators.find(step.operator_name);
  if (made.of == nullptr) throw internal_error("a host operator that was not checked");
  for (const auto* list : {&step.inputs, &step.outputs})
    for (const auto& tensor : *list) {
      std::vector<std::int64_t>& shape = made.shapes.emplace_back();
      for (const std::uint32_t size : tensor->shape) shape.push_back(expressions[size]);
      made.buffers.push_back(tensor->buffer);
    }
  for (std::size_t i = 0; i < made.shapes.size(); ++i)
    made.tensors.push_back({plan.buffers[made.buffers[i]]->dtype,
                            static_cast<std::int32_t>(made.shapes[i].size()), made.shapes[i].data(),
                            nullptr});
  for (const auto& attribute : step.attributes)
    made.attributes.push_back({attribute->name.c_str(), attribute->is_float ? 1 : 0,
                               attribute->integer, attribute->real});
  sinter_operator_call& call = made.call;
  call.struct_size = sizeof call;
  call.user = made.of->user;
  call.input_count = step.inputs.size();
  call.inputs = made.tensors.data();
  call.output_count = step.outputs.size();
  call.outputs = made.tensors.data() + step.inputs.size();
  call.attribute_count = made.attributes.size();
  call.attributes = made.attributes.data();
  made.check_shapes();
  if (made.of->workspace_bytes != nullptr)
    made.checked("workspace_bytes", call, [&](const sinter_operator_call* now) {
      return made.of->workspace_bytes(now, &made.workspace_bytes);
    });
  call.workspace_bytes = made.workspace_bytes;
}

HostCall::~HostCall() = default;
HostCall::HostCall(HostCall&&) noexcept = default;

std::size_t HostCall::workspace_bytes() const { return impl_->workspace_bytes; }

void HostCall::bind(std::span<std::byte* const> buffers, void* workspace) {
  for (std::size_t i = 0; i < impl_->tensors.size(); ++i)
    impl_->tensors[i].data = buffers[impl_->buffers[i]];
  impl_->call.workspace = impl_->workspace_bytes > 0 ? workspace : nullptr;
}

void HostCall::run(int threads) const {
  sinter_operator_call call = impl_->call;
  call.threads = threads;
  impl_->checked("run", call, impl_->of->run);
}

void HostCall::enqueue(void* stream) const {
  sinter_operator_call call = impl_->call;
  call.stream = stream;
  impl_->checked("enqueue", call, impl_->of->enqueue);
}

std::vector<void**> HostCall::readers(std::uint32_t buffer) {
  std::vector<void**> found;
  for (std::size_t i = 0; i < impl_->call.input_count; ++i)
    if (impl_->buffers[i] == buffer) found.push_back(&impl_->tensors[i].data);
  return found;
}

}  // namespace sinter::runtime
