# The nodes have an account of their own: the default one may do nearly everything.
resource "google_service_account" "nodes" {
  account_id   = "training-nodes"
  display_name = "Nodes of the cluster"
}

resource "google_project_iam_member" "nodes" {
  project = var.project
  role    = "roles/container.defaultNodeServiceAccount"
  member  = google_service_account.nodes.member
}

resource "google_artifact_registry_repository_iam_member" "nodes" {
  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.name
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.nodes.member
}

resource "google_container_cluster" "training" {
  name                     = "training"
  location                 = var.region
  node_locations           = var.zones
  remove_default_node_pool = true
  initial_node_count       = 1
  deletion_protection      = false

  workload_identity_config {
    workload_pool = "${var.project}.svc.id.goog"
  }

  release_channel {
    channel = "REGULAR"
  }

  depends_on = [google_project_service.needed]
}

resource "google_container_node_pool" "cpu" {
  name       = "cpu"
  cluster    = google_container_cluster.training.id
  node_count = 1

  node_config {
    machine_type    = "e2-standard-4"
    service_account = google_service_account.nodes.email
    oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]

    workload_metadata_config {
      mode = "GKE_METADATA"
    }
  }
}

resource "google_container_node_pool" "gpu" {
  name    = "gpu"
  cluster = google_container_cluster.training.id

  autoscaling {
    total_min_node_count = 0 # nothing is paid for while nothing runs
    total_max_node_count = var.most_gpu_nodes
  }

  node_config {
    machine_type    = var.machine_type
    service_account = google_service_account.nodes.email
    oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]
    spot            = true # cheaper, and may be taken away: write checkpoints

    guest_accelerator {
      type  = var.gpu.type
      count = var.gpu.count

      gpu_driver_installation_config {
        gpu_driver_version = "LATEST" # CUDA 13 needs a driver of 580 or newer
      }
    }

    workload_metadata_config {
      mode = "GKE_METADATA"
    }
  }
}
