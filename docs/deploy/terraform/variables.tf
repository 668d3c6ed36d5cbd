variable "project" {
  description = "The id of the project."
  type        = string
}

variable "region" {
  description = "Where bucket and cluster are."
  type        = string
  default     = "europe-west4"
}

variable "zones" {
  description = "Where the nodes are; they must have the machine type below."
  type        = list(string)
  default     = ["europe-west4-a"]
}

variable "namespace" {
  description = "The namespace of Kubernetes in which trainings run."
  type        = string
  default     = "default"
}

variable "machine_type" {
  description = "Of the nodes with GPUs. The GPUs belong to the type: a2-highgpu-1g has one A100."
  type        = string
  default     = "a2-highgpu-1g"
}

variable "gpu" {
  description = "The GPU of a node."
  type        = object({ type = string, count = number })
  default     = { type = "nvidia-tesla-a100", count = 1 }
}

variable "most_gpu_nodes" {
  description = "The most nodes with GPUs at the same time."
  type        = number
  default     = 4
}
