terraform {
  required_version = ">= 1.6"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 6.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}

resource "google_project_service" "needed" {
  for_each           = toset(["artifactregistry", "cloudkms", "compute", "container", "storage"])
  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false
}

# Images: edutorch:cpu and edutorch:cuda13 are pushed here.
resource "google_artifact_registry_repository" "images" {
  repository_id = "training"
  location      = var.region
  format        = "DOCKER"
  depends_on    = [google_project_service.needed]
}

# Data and checkpoints, encrypted with a key of our own, which changes every 90 days.
resource "google_kms_key_ring" "training" {
  name       = "training"
  location   = var.region
  depends_on = [google_project_service.needed]
}

resource "google_kms_crypto_key" "bucket" {
  name            = "bucket"
  key_ring        = google_kms_key_ring.training.id
  rotation_period = "7776000s"

  lifecycle {
    prevent_destroy = true # without the key the data is lost
  }
}

data "google_storage_project_service_account" "storage" {}

resource "google_kms_crypto_key_iam_member" "storage" {
  crypto_key_id = google_kms_crypto_key.bucket.id
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = "serviceAccount:${data.google_storage_project_service_account.storage.email_address}"
}

resource "google_storage_bucket" "training" {
  name                        = "${var.project}-training"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  versioning {
    enabled = true
  }

  encryption {
    default_kms_key_name = google_kms_crypto_key.bucket.id
  }

  lifecycle_rule {
    condition {
      days_since_noncurrent_time = 30
    }
    action {
      type = "Delete"
    }
  }

  depends_on = [google_kms_crypto_key_iam_member.storage]
}

# Who trains: it may read and write this bucket, and nothing else.
resource "google_service_account" "training" {
  account_id   = "training"
  display_name = "Trainings"
}

resource "google_storage_bucket_iam_member" "training" {
  bucket = google_storage_bucket.training.name
  role   = "roles/storage.objectUser"
  member = google_service_account.training.member
}

# Its pods are those with the account `training` of Kubernetes: no key is ever written to a file.
resource "google_service_account_iam_member" "pods" {
  service_account_id = google_service_account.training.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.project}.svc.id.goog[${var.namespace}/training]"
  depends_on         = [google_container_cluster.training]
}

# Who reads and writes the data is logged.
resource "google_project_iam_audit_config" "storage" {
  project = var.project
  service = "storage.googleapis.com"

  audit_log_config {
    log_type = "DATA_READ"
  }
  audit_log_config {
    log_type = "DATA_WRITE"
  }
}
