#include "tools/serve/model_registry.h"

#include <utility>

#include <fmt/format.h>

#include "tools/serve/api/api_error.h"

namespace sinter::tools {
namespace {

ApiError no_model(const std::string& name) {
  return {404,
          fmt::format("the model '{}' does not exist: GET /v1/models lists those that do", name),
          "model"};
}

}  // namespace

void ModelRegistry::load(const std::string& name, ServedModelOptions options) {
  auto model = std::make_shared<ServedModel>(name, std::move(options));
  const std::lock_guard lock(mutex_);
  std::swap(models_[name], model);
  // What was there ends behind the lock, unless a request has it.
}

void ModelRegistry::unload(const std::string& name) {
  std::shared_ptr<ServedModel> model;
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) throw no_model(name);
  model = std::move(found->second);
  models_.erase(found);
}

void ModelRegistry::reload(const std::string& name) { load(name, find(name)->options()); }

std::shared_ptr<ServedModel> ModelRegistry::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  if (name.empty()) {
    if (models_.size() == 1) return models_.begin()->second;
    throw ApiError(400, models_.empty() ? "no model is loaded" : "which 'model'? there are several",
                   "model");
  }
  const auto found = models_.find(name);
  if (found == models_.end()) throw no_model(name);
  return found->second;
}

std::vector<std::shared_ptr<ServedModel>> ModelRegistry::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> result;
  for (const auto& [_, model] : models_) result.push_back(model);
  return result;
}

void ModelRegistry::drain() {
  for (const auto& model : all())
    if (model->engine() != nullptr) model->engine()->drain();
}

}  // namespace sinter::tools
