output "bucket" {
  description = "For checkpoints and data."
  value       = "gs://${google_storage_bucket.training.name}"
}

output "images" {
  description = "Where images are pushed to."
  value       = "${var.region}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.images.name}"
}

output "connect" {
  description = "Lets kubectl talk to the cluster."
  value       = "gcloud container clusters get-credentials ${google_container_cluster.training.name} --region ${var.region} --project ${var.project}"
}

output "account" {
  description = "What the account of the pods is annotated with."
  value       = google_service_account.training.email
}
